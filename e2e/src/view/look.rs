//! What the API server has to say of a cluster's Neuron nodes and pods. Nothing else is asked, so it is the same for
//! every cluster.

use std::collections::BTreeSet;

use anyhow::Context as _;
use futures::stream::{BoxStream, StreamExt as _, select_all};
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::runtime::{WatchStreamExt as _, watcher};

use super::{View, pods};

/// Events that say why a pod waits.
const ABOUT_PODS: &str = "involvedObject.kind=Pod,type=Warning";

/// The cluster as it is now.
///
/// # Errors
/// The API server does not answer.
pub async fn look(client: &Client) -> anyhow::Result<View> {
    let (nodes, all_pods) = (Api::<Node>::all(client.clone()), Api::<Pod>::all(client.clone()));
    let all = ListParams::default();
    let (nodes, all_pods) =
        tokio::try_join!(nodes.list(&all), all_pods.list(&all)).context("asking the API server")?;
    let mut events: Vec<Event> = Vec::new();
    let namespaces: BTreeSet<&str> =
        pods::waiting(&all_pods.items).filter_map(|pod| pod.metadata.namespace.as_deref()).collect();
    for namespace in namespaces {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace);
        let listed = api.list(&all.clone().fields(ABOUT_PODS)).await;
        events.extend(listed.with_context(|| format!("asking for events in {namespace}"))?.items);
    }
    Ok(View::of(&nodes.items, &all_pods.items, &events))
}

/// Yields whenever something may have changed, or cannot be watched for now.
pub fn changes(client: &Client) -> BoxStream<'static, ()> {
    let config = watcher::Config::default();
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let pods: Api<PartialObjectMeta<Pod>> = Api::all(client.clone());
    let events: Api<PartialObjectMeta<Event>> = Api::all(client.clone());
    let nodes = watcher(nodes, config.clone()).default_backoff().map(|_| ()).boxed();
    let pods = watcher(pods, config.clone()).default_backoff().map(|_| ()).boxed();
    let events = watcher(events, config.fields(ABOUT_PODS)).default_backoff().map(|_| ()).boxed();
    select_all([nodes, pods, events]).boxed()
}
