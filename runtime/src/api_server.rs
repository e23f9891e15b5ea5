//! The way to the API server, with the limits that a node which has just started asks for, and those by which a connection that leads
//! nowhere any more is noticed.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Builder;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use kube::client::{ClientBuilder, ConfigExt as _};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use tower::retry::RetryLayer;
use tower::{BoxError, ServiceBuilder};

use crate::deadlines::Repeats;

/// Longest wait for a connection. A node's kube-proxy may be later than its pods: what they dial until then goes
/// nowhere, and only a new connection gets through (seen on kind: 30 s, kube's own limit, without hardware).
const CONNECT: Duration = Duration::from_secs(5);

/// Longest time for which the other side may acknowledge nothing: neither what was sent, nor, on a connection on which nothing is, the
/// probes. A machine that is gone says nothing, and a watch would take a minute to miss it. Of probes the kernel asks only when the next one
/// is due, so that it is noticed after nine seconds there.
const UNACKNOWLEDGED: Duration = Duration::from_secs(8);
/// Pause after which a connection is probed on which nothing comes, and between two probes.
const PROBE: Duration = Duration::from_secs(3);

/// A client by this kubeconfig file; without it by `KUBECONFIG`, `~/.kube/config` or the pod's service account, as
/// kubectl looks for them. No call is made yet.
///
/// # Errors
/// The file cannot be used, or there is none and no service account either.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    // Fails only where a provider is installed already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let config = config(kubeconfig).await?;
    // kube reaches a proxy by itself, without the limits, and repeats a request with the time that it had at first.
    let client = if config.proxy_url.is_some() { Client::try_from(config) } else { direct(config) };
    client.context("cannot make a client of the API server")
}

/// As kube makes one, but for what the operating system is told about its connections.
fn direct(config: Config) -> kube::Result<Client> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_keepalive(Some(PROBE));
    tcp.set_keepalive_interval(Some(PROBE));
    tcp.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(tcp)?);
    connector.set_connect_timeout(config.connect_timeout);
    connector.set_read_timeout(config.read_timeout);
    connector.set_write_timeout(config.write_timeout);
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.default_retry.then(|| RetryLayer::new(Repeats::new())))
        .option_layer(config.auth_layer()?)
        .layer(config.extra_headers_layer()?)
        .map_err(BoxError::from)
        .service(Builder::new(TokioExecutor::new()).build(connector));
    Ok(ClientBuilder::new(service, config.default_namespace).build())
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    // The library's texts hold those of their sources already: as a chain each would be printed twice.
    let mut config = match kubeconfig {
        Some(path) => {
            let unusable = |why: &dyn Display| {
                anyhow!("kubeconfig {} cannot be used (--kubeconfig): {why}", path.display())
            };
            let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .map_err(|error| unusable(&error))?
        }
        None => Config::infer().await.map_err(|error| {
            anyhow!("no API server found: give --kubeconfig or run in a pod with a service account: {error}")
        })?,
    };
    config.connect_timeout = Some(CONNECT);
    Ok(config)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test asks the machine itself")]
mod tests {
    use tokio::net::{TcpSocket, TcpStream};
    use tokio::time::{Instant, timeout};

    use super::*;

    const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://ADDRESS"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"#;

    #[tokio::test]
    async fn a_connection_that_leads_nowhere_is_given_up_for_another() {
        // Nobody accepts and the queue is full: the kernel drops what is dialled, as a node without kube-proxy does.
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut queue = Vec::new();
        while let Ok(Ok(stream)) = timeout(Duration::from_millis(300), TcpStream::connect(address)).await {
            queue.push(stream);
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG.replace("ADDRESS", &address.to_string())).unwrap();
        let client = client(Some(&path)).await.unwrap();
        let began = Instant::now();
        let answer = timeout(CONNECT * 2, client.apiserver_version()).await;
        assert!(answer.expect("it hangs").is_err());
        assert!(began.elapsed() >= CONNECT, "it was refused, not given up");
    }

    /// In a network namespace of its own, whose loopback is taken down: what is sent goes nowhere, and nobody says so.
    #[test]
    fn a_connection_that_leads_nowhere_any_more_is_noticed() {
        let test = std::env::current_exe().unwrap();
        let name = "api_server::tests::a_watch_whose_other_side_is_gone";
        let up_and = "ip link set lo up && exec \"$0\" \"$@\"";
        let run = |program: &[&str]| {
            let mut command = std::process::Command::new("unshare");
            command.args(["--user", "--map-root-user", "--net", "sh", "-c"]).args(program);
            command.output()
        };
        if !run(&["ip link set lo up"]).is_ok_and(|output| output.status.success()) {
            let why = "needs unshare, ip and the right to make a network namespace";
            assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "{why}");
            eprintln!("skipped: {why}");
            return;
        }
        let output =
            run(&[up_and, test.to_str().unwrap(), "--exact", name, "--ignored", "--nocapture"]).unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[tokio::test]
    #[ignore = "run by the test above, in a network namespace of its own"]
    async fn a_watch_whose_other_side_is_gone() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(async move {
            let (mut connection, _) = listener.accept().await.unwrap();
            let _request = tokio::io::AsyncReadExt::read(&mut connection, &mut [0; 1024]).await.unwrap();
            let head =
                b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut connection, head).await.unwrap();
            std::future::pending::<()>().await;
        });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, KUBECONFIG.replace("ADDRESS", &address.to_string())).unwrap();
        let client = client(Some(&path)).await.unwrap();
        let request =
            http::Request::get("/api/v1/pods?watch=true").body(kube::client::Body::empty()).unwrap();
        let body = client.send(request).await.unwrap().into_body();
        assert!(
            std::process::Command::new("ip").args(["link", "set", "lo", "down"]).status().unwrap().success()
        );
        let began = Instant::now();
        let end = timeout(UNACKNOWLEDGED * 3, http_body_util::BodyExt::collect(body)).await;
        assert!(end.expect("it was not noticed").is_err());
        // Ten seconds, and one for a machine that has much to do.
        assert!(began.elapsed() <= Duration::from_secs(11), "after {:?}", began.elapsed());
        serving.abort();
    }

    #[tokio::test]
    async fn a_file_that_is_not_there_is_named_once() {
        let error = client(Some(Path::new("/nowhere/kubeconfig"))).await.err().unwrap();
        assert_eq!(
            format!("{error:#}"),
            "kubeconfig /nowhere/kubeconfig cannot be used (--kubeconfig): failed to read kubeconfig from \
             '\"/nowhere/kubeconfig\"': No such file or directory (os error 2)"
        );
    }
}
