//! Keeps the cluster's index fed: one watch of pods, one of nodes. Started by [`crate::serve`].
//!
//! Only the fields that decide are kept; the list after a cut watch frees what went away meanwhile.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use kube::core::Resource;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client};
use neuron_core::names::{INSTANCE_TYPE_LABEL, NODE_REPORT};
use neuron_core::pod::BoundPod;
use serde::de::DeserializeOwned;
use tokio::time::sleep;
use tracing::warn;

use crate::cluster::Cluster;
use crate::objects::{ApiNode, ApiPod};
use crate::seen::{Change, SeenNode, SeenPod};

/// First and longest wait before a watch that was cut is taken up again. Pods that end meanwhile still count as
/// holders, so the longest is short.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));

/// Watches pods until the future is dropped.
pub(crate) async fn watch_pods(client: Client, cluster: Arc<Cluster>) {
    // A pod that ends leaves the selection, which the watch reports as a deletion: it holds nothing any more.
    let config = watcher::Config::default().fields("status.phase!=Succeeded,status.phase!=Failed");
    follow(Api::<ApiPod>::all(client), config, "pods", uid, seen_pod, |change| {
        cluster.write(|index| index.pods(change))
    })
    .await;
}

/// Watches nodes until the future is dropped.
pub(crate) async fn watch_nodes(client: Client, cluster: Arc<Cluster>) {
    let config = watcher::Config::default();
    follow(Api::<ApiNode>::all(client), config, "nodes", name, seen_node, |change| {
        cluster.write(|index| index.nodes(change))
    })
    .await;
}

/// The pod as the index keeps it; `None` if it neither asks for Neuron hardware nor carries a record.
pub(crate) fn seen_pod(pod: ApiPod) -> Option<SeenPod> {
    let metadata = pod.metadata;
    let kept = BoundPod::new(
        &metadata.namespace.unwrap_or_default(),
        &metadata.name.unwrap_or_default(),
        &metadata.uid.unwrap_or_default(),
        &metadata.annotations.unwrap_or_default(),
        &pod.spec,
        pod.status.as_ref(),
    );
    if kept.annotations.is_empty() && kept.request.as_ref().is_ok_and(|request| request.is_empty()) {
        return None;
    }
    let unschedulable = pod.status.iter().flat_map(|status| &status.conditions).any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    let node = pod.spec.node_name.filter(|node| !node.is_empty());
    Some(SeenPod { node, unschedulable, pod: kept })
}

fn seen_node(node: ApiNode) -> Option<SeenNode> {
    let metadata = node.metadata;
    Some(SeenNode {
        name: metadata.name?,
        instance_type: metadata.labels.and_then(|mut labels| labels.remove(INSTANCE_TYPE_LABEL)),
        report: metadata.annotations.and_then(|mut annotations| annotations.remove(NODE_REPORT)),
    })
}

fn uid<K: Resource<DynamicType = ()>>(object: &K) -> String {
    object.meta().uid.clone().unwrap_or_default()
}

fn name<K: Resource<DynamicType = ()>>(object: &K) -> String {
    object.meta().name.clone().unwrap_or_default()
}

async fn follow<K, T>(
    api: Api<K>,
    config: watcher::Config,
    what: &str,
    key: impl Fn(&K) -> String,
    seen: impl Fn(K) -> Option<T>,
    change: impl Fn(Change<T>),
) where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut wait = RETRY.0;
    loop {
        let mut events = std::pin::pin!(watcher(api.clone(), config.clone()));
        let mut listed = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => {
                    listed.clear();
                    change(Change::ListBegins);
                }
                Ok(Event::InitApply(object)) => listed.extend(seen(object)),
                Ok(Event::InitDone) => {
                    change(Change::Listed(std::mem::take(&mut listed)));
                    wait = RETRY.0;
                }
                Ok(Event::Apply(object)) => {
                    let key = key(&object);
                    change(seen(object).map_or(Change::Gone(key), Change::Applied));
                }
                Ok(Event::Delete(object)) => change(Change::Gone(key(&object))),
                // Taken up where it was cut, a watch would not say when it has caught up; a list does.
                Err(error) => {
                    warn!("the watch of {what} was cut and is taken up again: {error}");
                    change(Change::Cut);
                    break;
                }
            }
        }
        sleep(wait).await;
        wait = (wait * 2).min(RETRY.1);
    }
}
