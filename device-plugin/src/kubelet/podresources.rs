//! kubelet's own books: which container of which pod has which ids (only `upkeep` asks, and only at rest), and which ids
//! it offers (`registration` asks, at any time: that question touches no allocation).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, ListPodResourcesRequest, MAX_MESSAGE_BYTES,
};
use kubelet_api::unix::{SocketError, connect};
use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use neuron_core::topology::Topology;
use tonic::Response;
use tonic::transport::Channel;

use crate::resource;

/// Why kubelet's books could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    /// Nobody listens.
    #[error(transparent)]
    Connect(#[from] SocketError),
    /// kubelet refused.
    #[error("kubelet did not tell its pod resources: {0}")]
    Refused(#[from] tonic::Status),
    /// kubelet did not answer.
    #[error("kubelet did not tell its pod resources on {} within {limit:?}", socket.display())]
    Deadline {
        /// The socket.
        socket: PathBuf,
        /// How long it had.
        limit: Duration,
    },
}

/// What one container has of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The pod as `namespace/name`; kubelet does not say its UID.
    pub pod: String,
    /// The container; ordinary init containers are left out by kubelet.
    pub container: String,
    /// The resource.
    pub resource: Resource,
    /// The cores of its ids.
    pub cores: CoreSet,
    /// Number of ids.
    pub count: u32,
}

/// A connection to kubelet.
type Kubelet = PodResourcesListerClient<Channel>;

/// Asks kubelet one question.
async fn asked<T>(
    kubelet_dir: &Path,
    limit: Duration,
    question: impl AsyncFnOnce(Kubelet) -> Result<Response<T>, tonic::Status>,
) -> Result<T, PodResourcesError> {
    let socket = kubelet_dir.join("pod-resources/kubelet.sock");
    let ask = async {
        let kubelet = Kubelet::new(connect(&socket).await?).max_decoding_message_size(MAX_MESSAGE_BYTES);
        Ok(question(kubelet).await?.into_inner())
    };
    match tokio::time::timeout(limit, ask).await {
        Ok(answer) => answer,
        Err(_) => Err(PodResourcesError::Deadline { socket, limit }),
    }
}

/// The ids of a resource that kubelet would give out, those in use included.
///
/// # Errors
/// kubelet is away, slow, refuses, or is too old for the question (before Kubernetes 1.23).
pub async fn offered(
    kubelet_dir: &Path,
    resource: &str,
    limit: Duration,
) -> Result<BTreeSet<String>, PodResourcesError> {
    let ask =
        async |mut kubelet: Kubelet| kubelet.get_allocatable_resources(AllocatableResourcesRequest {}).await;
    let devices = asked(kubelet_dir, limit, ask).await?.devices.into_iter();
    Ok(devices
        .filter(|devices| devices.resource_name == resource)
        .flat_map(|devices| devices.device_ids)
        .collect())
}

/// Who holds what. Only at rest: see `gate`.
///
/// # Errors
/// kubelet is away, slow or refuses.
pub async fn list(
    kubelet_dir: &Path,
    topology: &Topology,
    limit: Duration,
) -> Result<Vec<Held>, PodResourcesError> {
    let ask = async |mut kubelet: Kubelet| kubelet.list(ListPodResourcesRequest {}).await;
    let pods = asked(kubelet_dir, limit, ask).await?.pod_resources;
    let mut all: Vec<Held> = Vec::new();
    for pod in pods {
        let name = format!("{}/{}", pod.namespace, pod.name);
        for container in pod.containers {
            for devices in container.devices {
                let Some(resource) = resource::resource_of(&devices.resource_name) else { continue };
                let cores = match resource::hardware(topology, resource, &devices.device_ids) {
                    Ok(cores) => cores,
                    Err(unknown) => {
                        tracing::warn!("pod {name}, container {}: {unknown}", container.name);
                        continue;
                    }
                };
                let count = resource::count_of(topology, resource, cores);
                // kubelet may list a container's ids one NUMA node at a time.
                match all.iter_mut().find(|held| {
                    held.pod == name && held.container == container.name && held.resource == resource
                }) {
                    Some(held) => {
                        held.cores = held.cores.union(cores);
                        held.count = resource::count_of(topology, resource, held.cores);
                    }
                    None => all.push(Held {
                        pod: name.clone(),
                        container: container.name.clone(),
                        resource,
                        cores,
                        count,
                    }),
                }
            }
        }
    }
    Ok(all)
}
