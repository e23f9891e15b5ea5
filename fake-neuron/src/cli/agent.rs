//! `fake-neuron agent`: the command line around [`fake_neuron::agent::Agent`], its log, its events, its `/healthz` and its end. Called
//! by `cli`.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use axum::routing::get;
use clap::Args;
use fake_neuron::agent::{Agent, Container, Containers, Report, install, lost_event};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::health;

/// How long an event may take.
const API_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Args)]
pub(crate) struct Arguments {
    /// Where container runtimes hand out listeners, as they see the path.
    #[arg(long, value_name = "PATH", default_value = "/run/fake-neuron/agent.sock")]
    socket: PathBuf,
    /// Folder that the node's machine stands in.
    #[arg(long, env = "NEURON_ROOT", value_name = "DIR")]
    root: PathBuf,
    /// Write the seccomp profile for pods to this file, such as /var/lib/kubelet/seccomp/fake-neuron.json.
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Address for /healthz, such as 127.0.0.1:8081; not served without it.
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// The node this runs on; with it an event tells each pod that an earlier agent has left.
    #[arg(long, env = "NODE_NAME", value_name = "NODE")]
    node_name: Option<String>,
    /// Kubeconfig file; without it KUBECONFIG, ~/.kube/config or the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
}

/// Runs until SIGTERM or Ctrl-C.
///
/// # Errors
/// The socket, the profile or the address cannot be used.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    runtime::log(runtime::LogFormat::Text);
    tokio::runtime::Runtime::new().context("cannot start")?.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> anyhow::Result<()> {
    let shutdown = runtime::until_signal()?;
    let (sender, reports) = unbounded_channel();
    let agent = Agent::start(&arguments.socket, &arguments.root, sender)?;
    if let Some(file) = &arguments.profile {
        install(file, &arguments.socket)
            .with_context(|| format!("cannot write profile {}", file.display()))?;
    }
    if let Some(address) = arguments.listen {
        let containers = agent.containers();
        let answer = move || std::future::ready(healthz(&containers));
        health::serve(address, get(answer), shutdown.clone())?;
    }
    let client = match &arguments.node_name {
        Some(node) => Some((runtime::client(arguments.kubeconfig.as_deref()).await?, node.clone())),
        None => None,
    };
    let telling = tokio::spawn(tell(reports, client));
    tracing::info!(socket = %arguments.socket.display(), root = %arguments.root.display(), "answers containers");
    let (stop, teller) = UnixStream::pair().context("cannot start")?;
    let serving = tokio::task::spawn_blocking(move || agent.run(stop.as_fd()));
    tokio::pin!(serving);
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = shutdown.cancelled() => {
            drop(teller);
            serving.await
        }
    };
    // The last reports were sent before the agent ended.
    telling.await.context("cannot report")?;
    Ok(ended.context("the agent has failed")??)
}

fn healthz(containers: &Containers) -> String {
    match containers.len() {
        1 => "answers 1 container".to_owned(),
        several => format!("answers {several} containers"),
    }
}

/// Logs every report, and tells pods what they must know.
async fn tell(mut reports: UnboundedReceiver<Report>, client: Option<(Client, String)>) {
    while let Some(report) = reports.recv().await {
        match report {
            Report::Serving(container) => {
                let Container { namespace, pod, name, id, devices, .. } = container;
                tracing::info!(
                    pod = format!("{namespace}/{pod}"),
                    container = name,
                    id,
                    ?devices,
                    "answers a container"
                );
            }
            Report::Ended(Container { namespace, pod, name, .. }) => {
                tracing::info!(pod = format!("{namespace}/{pod}"), container = name, "a container has ended");
            }
            Report::Left(container) => {
                let pod = format!("{}/{}", container.namespace, container.pod);
                tracing::error!(
                    pod,
                    container = container.name,
                    "the agent ends: a container's opens and ioctls fail from now on; delete the pod"
                );
                // There may be no next agent to say so.
                if let Some((client, node)) = &client {
                    write_event(client, node, &container, "the one that did ends").await;
                }
            }
            Report::Failed(container, reason) => {
                let pod = format!("{}/{}", container.namespace, container.pod);
                tracing::error!(
                    pod,
                    container = container.name,
                    reason,
                    "a container's opens and ioctls fail from now on; delete the pod"
                );
                if let Some((client, node)) = &client {
                    write_event(client, node, &container, &reason).await;
                }
            }
            Report::NotUnderstood(reason) => {
                tracing::warn!(reason, "a request to serve a container was not understood");
            }
            Report::Lost(container) => {
                let pod = format!("{}/{}", container.namespace, container.pod);
                tracing::error!(
                    pod,
                    container = container.name,
                    "an agent that has ended served this container: its opens and ioctls fail; delete the pod"
                );
                if let Some((client, node)) = &client {
                    write_event(client, node, &container, "the one that did has ended").await;
                }
            }
        }
    }
}

/// An event that cannot be written is logged, and nothing waits for it.
async fn write_event(client: &Client, node: &str, container: &Container, why: &str) {
    let api: Api<Event> = Api::namespaced(client.clone(), &container.namespace);
    let (event, parameters) = (lost_event(container, why, node, Timestamp::now()), PostParams::default());
    let written = tokio::time::timeout(API_TIMEOUT, api.create(&parameters, &event)).await;
    let reason = match written {
        Ok(Ok(_)) => return,
        Ok(Err(error)) => error.to_string(),
        Err(late) => late.to_string(),
    };
    let pod = format!("{}/{}", container.namespace, container.pod);
    tracing::warn!(pod, reason, "an event cannot be written");
}
