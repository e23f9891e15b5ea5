//! Asks kubelet's podresources API which container has which ids (`upkeep`, only at rest), and which ids kubelet counts as
//! allocatable (`registration`, at any time, since that question touches no allocation).

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ListPodResourcesRequest,
    ListPodResourcesResponse,
};
use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use neuron_core::topology::Topology;
use runtime::System;
use tokio::time::Instant;

use crate::kubelet::connection::Connection;
pub use crate::kubelet::connection::PodResourcesError;
use crate::resource::{AdvertisedResource, UnknownId, cores_of, count_of, known_cores, unit_of};

/// How long kubelet may take to tell its assignments; its own questions wait meanwhile.
const ASSIGNMENTS_TIMEOUT: Duration = Duration::from_secs(2);
/// How long kubelet may take to tell what is allocatable.
const ALLOCATABLE_TIMEOUT: Duration = Duration::from_secs(2);

/// What the plugin asks kubelet. One for all resources, so that they share a connection and answers.
pub struct PodResources {
    kubelet: Arc<Connection>,
    allocatable: Mutex<Option<Question>>,
}

/// A question about allocatable ids, whose answer serves everybody who asks soon after.
struct Question {
    asked_at: Instant,
    answer: Shared<BoxFuture<'static, AllocatableAnswer>>,
}

type AllocatableAnswer = Result<Allocatable, Arc<PodResourcesError>>;

/// The ids that kubelet would give out, including those in use.
#[derive(Clone, Debug)]
pub struct Allocatable(Arc<AllocatableResourcesResponse>);

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

impl PodResources {
    /// Of the kubelet whose folder this is. Nothing is dialled yet.
    pub fn new(system: System, kubelet_dir: &Path) -> Self {
        let socket: PathBuf = kubelet_dir.join("pod-resources/kubelet.sock");
        PodResources { kubelet: Arc::new(Connection::new(system, socket)), allocatable: Mutex::default() }
    }

    /// The ids that kubelet would give out, as it said within the last `age` or says now.
    ///
    /// # Errors
    /// kubelet is away, slow, refuses, or is too old for the question (before Kubernetes 1.23).
    pub async fn allocatable(&self, age: Duration) -> AllocatableAnswer {
        let answer = {
            let mut last = self.last_question();
            let fresh = last.as_ref().filter(|question| question.asked_at.elapsed() < age);
            match fresh {
                Some(question) => question.answer.clone(),
                None => {
                    let question = Question::ask(Arc::clone(&self.kubelet));
                    last.insert(question).answer.clone()
                }
            }
        };
        answer.await
    }

    /// Who has what. Only at rest: see [`crate::ledger::gate`].
    ///
    /// # Errors
    /// kubelet is away, slow or refuses.
    pub async fn assignments(&self, topology: &Topology) -> Result<Assignments, PodResourcesError> {
        let list = self
            .kubelet
            .ask(ASSIGNMENTS_TIMEOUT, async |mut kubelet| kubelet.list(ListPodResourcesRequest {}).await);
        Ok(Assignments::of(topology, list.await?))
    }

    fn last_question(&self) -> MutexGuard<'_, Option<Question>> {
        self.allocatable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    fn ask(kubelet: Arc<Connection>) -> Self {
        let answer = async move {
            let answer = kubelet.ask(ALLOCATABLE_TIMEOUT, async |mut kubelet| {
                kubelet.get_allocatable_resources(AllocatableResourcesRequest {}).await
            });
            answer.await.map(|answer| Allocatable(Arc::new(answer))).map_err(Arc::new)
        };
        Question { asked_at: Instant::now(), answer: answer.boxed().shared() }
    }
}

impl Allocatable {
    /// The cores of those ids of a resource that are this machine's.
    pub fn cores(&self, topology: &Topology, resource: AdvertisedResource) -> CoreSet {
        let own = self.0.devices.iter().filter(|devices| devices.resource_name == resource.name);
        own.fold(CoreSet::EMPTY, |all, devices| {
            all.union(known_cores(topology, resource.unit, &devices.device_ids))
        })
    }
}

impl Assignments {
    fn of(topology: &Topology, list: ListPodResourcesResponse) -> Self {
        let mut all = Assignments::default();
        for pod in list.pod_resources {
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
        all
    }

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
