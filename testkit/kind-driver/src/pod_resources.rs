//! What kubelet says which container has which devices, and which it offers, asked over its podresources socket.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Context as _;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, ListPodResourcesRequest, MAX_MESSAGE_BYTES,
};
use tokio::process::Child;
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

/// A connection with a node's kubelet that is asked again and again what it offers, which disturbs nothing there.
pub struct Offers {
    kubelet: PodResourcesListerClient<Channel>,
    _connection: Child,
}

impl Offers {
    /// Dials the kubelet of this node.
    ///
    /// # Errors
    /// Nobody answers there.
    pub async fn of(node: &str) -> anyhow::Result<Self> {
        let (channel, connection) = socket::dial(node, SOCKET).await?;
        let kubelet = PodResourcesListerClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
        Ok(Self { kubelet, _connection: connection })
    }

    /// How many ids of each of these resources kubelet offers now.
    ///
    /// # Errors
    /// kubelet is away or slow.
    pub async fn counts<const N: usize>(&mut self, resources: [&str; N]) -> anyhow::Result<[usize; N]> {
        let asked = self.kubelet.get_allocatable_resources(AllocatableResourcesRequest {});
        let answer = tokio::time::timeout(TIMEOUT, asked).await.context("kubelet does not answer")??;
        let devices = answer.into_inner().devices;
        Ok(resources.map(|resource| {
            let ours = devices.iter().filter(|devices| devices.resource_name == resource);
            ours.map(|devices| devices.device_ids.len()).sum()
        }))
    }
}
