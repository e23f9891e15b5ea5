//! Asks kubelet's podresources API which ids kubelet counts as allocatable, which touches no allocation. Its `List` is never asked:
//! one amid an Allocate makes kubelet forget it (docs/reference/kubernetes.md §6). Used by `loss` and `registration`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared};
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, MAX_MESSAGE_BYTES,
};
use neuron_core::ids::CoreSet;
use neuron_core::topology::Topology;
use runtime::{System, reached};
use tokio::time::Instant;

use crate::kubelet::connection::Connection;
pub use crate::kubelet::connection::KubeletError;
use crate::resource::{AdvertisedResource, known_cores};

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

type AllocatableAnswer = Result<Allocatable, Arc<KubeletError>>;

/// The ids that kubelet would give out, including those in use.
#[derive(Clone, Debug)]
pub struct Allocatable(Arc<AllocatableResourcesResponse>);

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

    fn last_question(&self) -> MutexGuard<'_, Option<Question>> {
        self.allocatable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Question {
    fn ask(kubelet: Arc<Connection>) -> Self {
        let answer = async move {
            let answer = kubelet.ask(ALLOCATABLE_TIMEOUT, async |channel| {
                let kubelet = PodResourcesListerClient::new(channel);
                let mut kubelet = kubelet.max_decoding_message_size(MAX_MESSAGE_BYTES);
                kubelet.get_allocatable_resources(AllocatableResourcesRequest {}).await
            });
            let answer = answer.await;
            match &answer {
                Ok(_) => {}
                Err(KubeletError::Connect(_)) => reached("plugin: podresources away"),
                Err(KubeletError::Refused(_)) => reached("plugin: podresources refused"),
                Err(KubeletError::Timeout { .. }) => reached("plugin: podresources not answered"),
            }
            answer.map(|answer| Allocatable(Arc::new(answer))).map_err(Arc::new)
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
