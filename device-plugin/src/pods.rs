//! The pods bound to this node, fed by a watch, by live reads, and by kubelet where it tells its own. The watch may lag a Binding, so
//! these may be newer.

mod node_pod;
mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core_v1;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client};
use runtime::{Collection, Json, System, reached};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::node_pod::{node_pod, number};
pub(crate) use self::state::PodCounts;
use self::state::{State, keep_newer};
pub use crate::kubelet::pods_api::Pod;
use crate::kubelet::pods_api::PodsApi;
use crate::ledger::Life;
use crate::ledger::slot::NodePod;
use crate::ledger::told::Told;

/// Why the pods could not be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum PodsError {
    /// The API server refused, or cannot be reached.
    #[error("the API server did not do it: {0}")]
    Api(#[from] kube::Error),
    /// The API server did not answer in time.
    #[error("the API server did not answer within {0:?}")]
    Timeout(Duration),
    /// Nobody answered before kubelet's own call had to be answered.
    #[error("the pods were not told in time")]
    Late,
}

/// The pods bound to one node.
pub struct Pods {
    client: Client,
    node: String,
    timeout: Duration,
    kubelet: PodsApi,
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

impl Pods {
    /// Reads nothing yet. `timeout` is how long each call to the API server may take.
    pub fn new(client: Client, node: &str, timeout: Duration, kubelet: PodsApi) -> Self {
        let changed = watch::Sender::new(());
        Pods { client, node: node.to_owned(), timeout, kubelet, state: Mutex::default(), changed }
    }

    /// The pods that have not ended; none until pods were read once.
    pub fn living(&self) -> Option<Vec<Arc<NodePod>>> {
        self.state().living()
    }

    /// Whether the pods were read once.
    pub fn are_known(&self) -> bool {
        self.state().known.is_some()
    }

    /// What is known of the pod that kubelet has this UID of.
    pub fn life(&self, kubelet_uid: &str) -> Life {
        self.state().life(kubelet_uid)
    }

    /// What kubelet has just told of its own pods.
    pub fn told(&self) -> Option<Told> {
        self.state().told().cloned()
    }

    /// Another kubelet has started, which may know less for a while.
    pub fn kubelet_restarted(&self) {
        self.state().set_told(None);
    }

    /// When the last live read began that was answered.
    pub fn last_read_live(&self) -> Option<Instant> {
        self.state().read_live
    }

    /// Another number after each change of what the API server shows.
    pub fn version(&self) -> u64 {
        self.state().version
    }

    /// Changes with every change of the pods.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Reads the pods as they are now: from kubelet, which is nearest, and where it does not tell them from the API server.
    ///
    /// # Errors
    /// kubelet does not tell them, and the API server is away, slow or refuses.
    pub async fn read_now(&self) -> Result<(), PodsError> {
        // Planted: it is looked for without kubelet, which tells its pods whenever it asks.
        #[cfg(planted)]
        if unread_prefers_nothing() {
            return self.read_live().await;
        }
        if self.ask_kubelet().await.is_some() { Ok(()) } else { self.read_live().await }
    }

    /// Asks kubelet for its pods. What it told; none where it does not.
    pub async fn ask_kubelet(&self) -> Option<Told> {
        let asked = Instant::now();
        let told = self.kubelet.list().await;
        let told = told.map(|pods| Told::new(asked, pods.iter().filter_map(node_pod).collect())).ok();
        self.state().set_told(told.clone());
        told
    }

    /// Reads the pods from the API server itself.
    ///
    /// # Errors
    /// The API server is away, slow or refuses.
    pub async fn read_live(&self) -> Result<(), PodsError> {
        let only = ListParams::default().fields(&format!("spec.nodeName={}", self.node));
        let (api, began) = (self.everywhere(), Instant::now());
        let list = tokio::time::timeout(self.timeout, api.list(&only))
            .await
            .map_err(|_| PodsError::Timeout(self.timeout))??;
        let mut state = self.state();
        let before = state.known.clone();
        let pods = list.items.iter().filter_map(node_pod).map(|pod| (pod.pod.uid.to_string(), Arc::new(pod)));
        state.read(pods.collect(), number(list.metadata.resource_version.as_deref()), began);
        let news = state.known != before;
        drop(state);
        if news {
            self.changed.send_replace(());
        }
        Ok(())
    }

    /// Changes a pod's annotations (no value removes a key) if the pod is still at the version of `pod`.
    ///
    /// # Errors
    /// Code 409 where it is not: read live and look again. The API server is away, slow or refuses.
    pub async fn annotate(
        &self,
        pod: &NodePod,
        annotations: &BTreeMap<String, Option<String>>,
    ) -> Result<(), PodsError> {
        let (uid, namespace, name) = (&*pod.pod.uid, pod.pod.namespace(), pod.pod.name());
        let patch: Value = serde_json::json!({"metadata": {
            "uid": uid,
            "resourceVersion": pod.version.to_string(),
            "annotations": annotations,
        }});
        let kind = ApiResource::erase::<core_v1::Pod>(&());
        let api: Api<Pod> = Api::namespaced_with(self.client.clone(), namespace, &kind);
        let (patch, params) = (Patch::Merge(&patch), PatchParams::default());
        let written = tokio::time::timeout(self.timeout, api.patch(name, &params, &patch))
            .await
            .map_err(|_| PodsError::Timeout(self.timeout))??;
        self.apply(&written);
        Ok(())
    }

    /// Watches until `shutdown`; an API server that is away is asked again and again.
    pub async fn watch(&self, system: &System, shutdown: CancellationToken) {
        let pods = Collection::of::<core_v1::Pod>().only(format!("spec.nodeName={}", self.node));
        let events = runtime::watch(system, self.client.clone(), pods, Json);
        let mut events = events.take_until(shutdown.clone().cancelled_owned()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(event) => self.take(event),
                // What is known stays meanwhile.
                Err(_) => reached("plugin: watch disconnected"),
            }
            if shutdown.run_until_cancelled(self.make_sure()).await.is_none() {
                return;
            }
        }
    }

    /// Reads live again where a live read and a relist have crossed, until that is answered.
    async fn make_sure(&self) {
        while self.is_unsure() {
            reached("plugin: live read amid a relist");
            if self.read_live().await.is_err() {
                tokio::time::sleep(self.timeout).await;
            }
        }
    }

    fn is_unsure(&self) -> bool {
        let state = self.state();
        state.is_unsure && state.starting.is_none()
    }

    fn take(&self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Apply(pod) => self.apply(&pod),
            watcher::Event::Delete(pod) => {
                if let Some(NodePod { pod, .. }) = node_pod(&pod) {
                    self.state().forget(&pod.uid);
                }
            }
            watcher::Event::Init => {
                let mut state = self.state();
                if state.known.is_some() {
                    reached("plugin: relist");
                }
                state.starting = Some(BTreeMap::new());
            }
            watcher::Event::InitApply(pod) => {
                if let (Some(starting), Some(pod)) = (&mut self.state().starting, node_pod(&pod)) {
                    keep_newer(starting, Arc::new(pod));
                }
                return;
            }
            watcher::Event::InitDone => self.state().relisted(),
        }
        self.changed.send_replace(());
    }

    fn apply(&self, pod: &Pod) {
        let Some(pod) = node_pod(pod) else { return };
        self.state().keep(Arc::new(pod));
        self.changed.send_replace(());
    }

    /// How many pods with a record of their devices kubelet has failed in admission.
    pub(crate) fn failed_admissions(&self) -> u64 {
        self.state().failed_admissions
    }

    /// How many pods are known, and what else is kept of pods.
    pub(crate) fn counts(&self) -> PodCounts {
        self.state().counts()
    }

    fn everywhere(&self) -> Api<Pod> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<core_v1::Pod>(&()))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Planted: nothing is preferred while nobody tells which pods there are.
#[cfg(planted)]
pub(crate) fn unread_prefers_nothing() -> bool {
    runtime::is_planted("unread-prefers-nothing")
}
