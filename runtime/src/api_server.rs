//! The way to the API server, with the limits that a node which has just started asks for.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// Longest wait for a connection. A node's kube-proxy may be later than its pods: what they dial until then goes
/// nowhere, and only a new connection gets through (seen on kind: 30 s, kube's own limit, without hardware).
const CONNECT: Duration = Duration::from_secs(5);

/// A client by this kubeconfig file; without it by `KUBECONFIG`, `~/.kube/config` or the pod's service account, as
/// kubectl looks for them. No call is made yet.
///
/// # Errors
/// The file cannot be used, or there is none and no service account either.
pub async fn client(kubeconfig: Option<&Path>) -> anyhow::Result<Client> {
    // Fails only where a provider is installed already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Client::try_from(config(kubeconfig).await?).context("cannot make a client of the API server")
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
