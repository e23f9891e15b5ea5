//! What runs in a process of its own: the extender as its program runs it, and a list of the same objects without it. Two more are the
//! [`super::passing`] extender and who binds, the [`super::scheduler`].

use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use fake_cluster::api::continue_token;
use http::HeaderValue;
use http::header::ACCEPT;
use http_body_util::BodyExt as _;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::Request;
use neuron_extender::{Config, serve};
use runtime::System;
use runtime::protobuf::MEDIA_TYPE;
use runtime::system::{Address, Listener};
use tokio_util::sync::CancellationToken;

use crate::objects::PAGE;

/// The arguments by which the ways are asked for; addresses follow.
pub(crate) const EXTENDER: &str = "extender";
pub(crate) const PASSING: &str = "passing";
pub(crate) const LIST: &str = "list";
pub(crate) const SCHEDULER: &str = "scheduler";

/// What the extender selects pods by.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

const KUBECONFIG: &str = r#"
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "http://ADDRESS"}}]
users: [{name: u, user: {}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"#;

/// The client that the suite's programs have, of the server at this address, or of this kubeconfig file, an absolute path.
pub(crate) async fn client_of(server: &str) -> anyhow::Result<Client> {
    let file = Path::new(server);
    if file.is_absolute() {
        return runtime::client(Some(file)).await;
    }
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("kubeconfig");
    std::fs::write(&path, KUBECONFIG.replace("ADDRESS", server))?;
    runtime::client(Some(&path)).await
}

/// A port of this machine alone, which is said.
pub(crate) fn listener(system: &System) -> std::io::Result<Box<dyn Listener>> {
    let listener = system.listen(&Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0))))?;
    println!("{}", listener.address());
    Ok(listener)
}

/// The extender, until it is killed. It says where it listens.
pub(crate) fn extender(api: &str) -> ExitCode {
    runtime::log(runtime::LogFormat::Text);
    runtime::run_program("extender", async {
        let client = client_of(api).await?;
        let system = System::real();
        let listener = listener(&system)?;
        serve(system, Config::default(), client, listener, CancellationToken::new()).await
    })
}

/// Lists what the extender lists, both kinds at one time, and reads nothing of it but how it goes on. Says how many bytes it was.
pub(crate) fn list(api: &str) -> ExitCode {
    runtime::log(runtime::LogFormat::Text);
    runtime::run_program("list", async {
        let client = client_of(api).await?;
        let pods = listed(&client, "/api/v1/pods", Some(LIVE_PODS));
        let (pods, nodes) = tokio::try_join!(pods, listed(&client, "/api/v1/nodes", None))?;
        println!("{pods} {nodes}");
        Ok(())
    })
}

/// The bytes of the collection, page by page.
async fn listed(client: &Client, path: &str, field_selector: Option<&str>) -> anyhow::Result<usize> {
    let mut parameters = ListParams {
        limit: Some(u32::try_from(PAGE)?),
        field_selector: field_selector.map(str::to_owned),
        ..ListParams::default()
    };
    let mut bytes = 0;
    loop {
        let mut request = Request::new(path).list(&parameters)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(MEDIA_TYPE));
        let answer = client.send(request.map(Body::from)).await?;
        ensure!(answer.status().is_success(), "the API server answers {}", answer.status());
        let page = answer.into_body().collect().await?.to_bytes();
        bytes += page.len();
        let token = continue_token(&page).context("the API server's page is no list in protobuf")?;
        if token.is_empty() {
            return Ok(bytes);
        }
        parameters.continue_token = Some(token);
    }
}
