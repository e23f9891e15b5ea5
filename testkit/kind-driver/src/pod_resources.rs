//! What kubelet says which container has which devices, asked over its podresources socket.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::podresources::v1::{ListPodResourcesRequest, MAX_MESSAGE_BYTES};
use tonic::transport::Channel;

use crate::socket;

/// The socket's path on every node.
const SOCKET: &str = "/var/lib/kubelet/pod-resources/kubelet.sock";
/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The ids of one resource, sorted, by pod (`namespace/name`) and container. A container without any has an empty list.
pub type Assignments = BTreeMap<String, BTreeMap<String, Vec<String>>>;

/// Asks the kubelet of this node once who has what of a resource.
///
/// # Errors
/// kubelet is away or slow.
pub async fn list(node: &str, resource: &str) -> anyhow::Result<Assignments> {
    let asked = tokio::time::timeout(TIMEOUT, ask(node, resource)).await;
    asked.with_context(|| format!("kubelet of {node} gave no pod resources in {} s", TIMEOUT.as_secs()))?
}

async fn ask(node: &str, resource: &str) -> anyhow::Result<Assignments> {
    let (channel, _connection) = socket::dial(node, SOCKET).await?;
    of(channel, resource).await.with_context(|| format!("pod resources of {node}"))
}

/// Asks the kubelet at the other end who has what of a resource.
///
/// # Errors
/// kubelet does not answer.
pub async fn of(channel: Channel, resource: &str) -> anyhow::Result<Assignments> {
    let mut kubelet = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
    let listed = kubelet.list(ListPodResourcesRequest {}).await?.into_inner();
    let mut assigned = Assignments::new();
    for pod in listed.pod_resources {
        let containers = assigned.entry(format!("{}/{}", pod.namespace, pod.name)).or_default();
        for container in pod.containers {
            let ours = container.devices.into_iter().filter(|devices| devices.resource_name == resource);
            let mut ids: Vec<String> = ours.flat_map(|devices| devices.device_ids).collect();
            ids.sort();
            containers.insert(container.name, ids);
        }
    }
    Ok(assigned)
}
