//! Asks kubelet's podresources API which container has which ids (`upkeep`, only at rest), and which ids kubelet counts as
//! allocatable (`registration`, at any time, since that question touches no allocation).

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

use crate::resource::{UnknownId, cores_of, count_of, unit_of};

/// Why kubelet did not tell.
#[derive(Debug, thiserror::Error)]
pub enum PodResourcesError {
    /// Nobody listens on kubelet's socket.
    #[error(transparent)]
    Connect(#[from] SocketError),
    /// kubelet answered with an error.
    #[error("kubelet did not tell its pod resources: {0}")]
    Refused(#[from] tonic::Status),
    /// kubelet did not answer in time.
    #[error("kubelet did not tell its pod resources on {} within {timeout:?}", socket.display())]
    Timeout {
        /// kubelet's socket.
        socket: PathBuf,
        /// The time it had.
        timeout: Duration,
    },
}

/// Every assignment on this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignments {
    /// One entry for each container and resource.
    pub known: Vec<Assignment>,
    /// Ids that are none of this machine's, by pod (`namespace/name`) and container.
    pub unknown: Vec<(String, String, UnknownId)>,
}

/// The ids of one resource that one container has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The pod as `namespace/name`; kubelet does not say its UID.
    pub pod: String,
    /// The container. kubelet leaves ordinary init containers out.
    pub container: String,
    /// What one id stands for.
    pub unit: Resource,
    /// The logical cores of the ids.
    pub cores: CoreSet,
    /// Number of ids.
    pub count: u32,
}

type Kubelet = PodResourcesListerClient<Channel>;

/// The ids of a resource that kubelet would give out, including those in use.
///
/// # Errors
/// kubelet is away, slow, refuses, or is too old for the question (before Kubernetes 1.23).
pub async fn allocatable(
    kubelet_dir: &Path,
    resource: &str,
    timeout: Duration,
) -> Result<BTreeSet<String>, PodResourcesError> {
    let call =
        async |mut kubelet: Kubelet| kubelet.get_allocatable_resources(AllocatableResourcesRequest {}).await;
    let devices = ask(kubelet_dir, timeout, call).await?.devices.into_iter();
    Ok(devices
        .filter(|devices| devices.resource_name == resource)
        .flat_map(|devices| devices.device_ids)
        .collect())
}

/// Who has what. Only at rest: see [`crate::ledger::gate`].
///
/// # Errors
/// kubelet is away, slow or refuses.
pub async fn assignments(
    kubelet_dir: &Path,
    topology: &Topology,
    timeout: Duration,
) -> Result<Assignments, PodResourcesError> {
    let call = async |mut kubelet: Kubelet| kubelet.list(ListPodResourcesRequest {}).await;
    let mut all = Assignments::default();
    for pod in ask(kubelet_dir, timeout, call).await?.pod_resources {
        let name = format!("{}/{}", pod.namespace, pod.name);
        for container in pod.containers {
            for devices in container.devices {
                let Some(unit) = unit_of(&devices.resource_name) else { continue };
                match cores_of(topology, unit, &devices.device_ids) {
                    Ok(cores) => all.add(topology, &name, &container.name, unit, cores),
                    Err(unknown) => all.unknown.push((name.clone(), container.name.clone(), unknown)),
                }
            }
        }
    }
    Ok(all)
}

impl Assignments {
    /// kubelet may list a container's ids one NUMA node at a time.
    fn add(&mut self, topology: &Topology, pod: &str, container: &str, unit: Resource, cores: CoreSet) {
        let same =
            |known: &&mut Assignment| known.pod == pod && known.container == container && known.unit == unit;
        match self.known.iter_mut().find(same) {
            Some(known) => {
                known.cores = known.cores.union(cores);
                known.count = count_of(topology, unit, known.cores);
            }
            None => self.known.push(Assignment {
                pod: pod.to_owned(),
                container: container.to_owned(),
                unit,
                cores,
                count: count_of(topology, unit, cores),
            }),
        }
    }
}

/// Asks kubelet one question.
async fn ask<T>(
    kubelet_dir: &Path,
    timeout: Duration,
    call: impl AsyncFnOnce(Kubelet) -> Result<Response<T>, tonic::Status>,
) -> Result<T, PodResourcesError> {
    let socket = kubelet_dir.join("pod-resources/kubelet.sock");
    let answer = async {
        let kubelet = Kubelet::new(connect(&socket).await?).max_decoding_message_size(MAX_MESSAGE_BYTES);
        Ok(call(kubelet).await?.into_inner())
    };
    match tokio::time::timeout(timeout, answer).await {
        Ok(answer) => answer,
        Err(_) => Err(PodResourcesError::Timeout { socket, timeout }),
    }
}
