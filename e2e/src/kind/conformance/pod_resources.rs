//! kubelet's own books, asked over its podresources socket: who holds which device ids.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::podresources::v1::{ListPodResourcesRequest, MAX_MESSAGE_BYTES};

use crate::kind::pipe;

const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";
/// Longest wait for one answer.
const LIMIT: Duration = Duration::from_secs(10);

/// By pod, as `namespace/name`, and container: the ids of one resource, sorted. Containers without any are there with
/// none.
pub(in crate::kind) type Held = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Asks the kubelet of this node once. Errors: kubelet is away or slow.
pub(in crate::kind) async fn list(node: &str, resource: &str) -> anyhow::Result<Held> {
    let asked = tokio::time::timeout(LIMIT, ask(node, resource)).await;
    asked.with_context(|| format!("kubelet of {node} gave no pod resources in {} s", LIMIT.as_secs()))?
}

async fn ask(node: &str, resource: &str) -> anyhow::Result<Held> {
    let (channel, _connection) = pipe::dial(node, SOCKET).await?;
    let mut kubelet = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let listed = kubelet
        .list(ListPodResourcesRequest {})
        .await
        .with_context(|| format!("pod resources of {node}"))?
        .into_inner();
    let mut held = Held::new();
    for pod in listed.pod_resources {
        let containers = held.entry(format!("{}/{}", pod.namespace, pod.name)).or_default();
        for container in pod.containers {
            let ours = container.devices.into_iter().filter(|devices| devices.resource_name == resource);
            let mut ids: Vec<String> = ours.flat_map(|devices| devices.device_ids).collect();
            ids.sort();
            containers.insert(container.name, ids);
        }
    }
    Ok(held)
}
