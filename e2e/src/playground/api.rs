//! What the API server has to say of a cluster's Neuron nodes and pods. Nothing else is asked, so it is the same for
//! every cluster.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use futures::stream::{BoxStream, StreamExt as _, select_all};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, Config};

use super::view::View;
use super::waiting;

/// Longest wait for a connection: whoever asks is sitting there.
const CONNECT: Duration = Duration::from_secs(5);
/// Events that say why a pod waits.
const ABOUT_PODS: &str = "involvedObject.kind=Pod,type=Warning";

/// A client by a kubeconfig file, in its current context or the one given.
pub(super) async fn client_of(kubeconfig: &Path, context: Option<&str>) -> anyhow::Result<Client> {
    let file = Kubeconfig::read_from(kubeconfig)
        .with_context(|| format!("reading the kubeconfig {}", kubeconfig.display()))?;
    client(file, context).await
}

/// A client by the kubeconfig that kubectl would use.
pub(super) async fn client_by_environment(context: Option<&str>) -> anyhow::Result<Client> {
    client(Kubeconfig::read().context("reading the kubeconfig")?, context).await
}

async fn client(file: Kubeconfig, context: Option<&str>) -> anyhow::Result<Client> {
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config =
        Config::from_custom_kubeconfig(file, &options).await.context("reading the kubeconfig")?;
    config.connect_timeout = Some(CONNECT);
    Ok(Client::try_from(config)?)
}

/// The cluster as it is now.
pub(super) async fn look(client: &Client) -> anyhow::Result<View> {
    let (nodes, pods) = (Api::<Node>::all(client.clone()), Api::<Pod>::all(client.clone()));
    let all = ListParams::default();
    let (nodes, pods) =
        tokio::try_join!(nodes.list(&all), pods.list(&all)).context("asking the API server")?;
    let mut events: Vec<Event> = Vec::new();
    let namespaces: BTreeSet<&str> =
        waiting::pods(&pods.items).filter_map(|pod| pod.metadata.namespace.as_deref()).collect();
    for namespace in namespaces {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let listed = api.list(&all.clone().fields(ABOUT_PODS)).await;
        events.extend(listed.with_context(|| format!("asking for events in {namespace}"))?.items);
    }
    Ok(View::of(&nodes.items, &pods.items, &events))
}

/// Yields whenever something may have changed, or cannot be watched for now.
pub(super) fn changes(client: &Client) -> BoxStream<'static, ()> {
    let config = watcher::Config::default();
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let pods: Api<PartialObjectMeta<Pod>> = Api::all(client.clone());
    let events: Api<PartialObjectMeta<Event>> = Api::all(client.clone());
    let nodes = watcher(nodes, config.clone()).default_backoff().map(|_| ()).boxed();
    let pods = watcher(pods, config.clone()).default_backoff().map(|_| ()).boxed();
    let events = watcher(events, config.fields(ABOUT_PODS)).default_backoff().map(|_| ()).boxed();
    select_all([nodes, pods, events]).boxed()
}
