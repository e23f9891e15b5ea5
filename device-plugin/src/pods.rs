//! The pods bound to this node, fed by a watch, by live reads, and by kubelet where it tells its own. The watch may lag a Binding, so
//! these may be newer.

mod state;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1 as core_v1;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::ApiResource;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use neuron_core::names::Resource;
use neuron_core::pod::{BoundPod, PodStatus};
use neuron_core::request::PodRequest;
use runtime::{Collection, Json, System, reached};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub(crate) use self::state::PodCounts;
use self::state::{State, keep_newer};
pub use crate::kubelet::pods_api::Pod;
use crate::kubelet::pods_api::PodsApi;
use crate::ledger::slot::NodePod;
use crate::ledger::told::Told;
use crate::ledger::{Life, is_static};

/// On a mirror: that it is one.
const MIRROR: &str = "kubernetes.io/config.mirror";
/// On a mirror: the UID by which kubelet knows its static pod.
const CONFIG_HASH: &str = "kubernetes.io/config.hash";

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

/// What is kept of a pod; none of a pod that requests nothing of the plugin.
fn node_pod(pod: &Pod) -> Option<NodePod> {
    let status = pod.status.as_ref();
    let bound = BoundPod::new(
        pod.namespace().unwrap_or_default(),
        pod.name_any(),
        pod.uid().unwrap_or_default(),
        pod.annotations().clone(),
        &pod.spec,
        status,
    );
    if bound.request.as_ref().is_ok_and(PodRequest::is_empty) {
        return None;
    }
    let uid = bound.uid.to_string();
    // kubelet names a static pod by this, and its mirror says so. Anybody can write that on a pod; a UID of the API server has
    // another form, so that no pod can be passed off as another one's.
    let is_mirror = pod.annotations().contains_key(MIRROR);
    let kubelet_uid = pod.annotations().get(CONFIG_HASH).filter(|hash| is_mirror && is_static(hash));
    let of_all = status
        .into_iter()
        .flat_map(|status| status.init_container_statuses.iter().chain(&status.container_statuses));
    let started = of_all.clone().filter(|status| status.has_run()).map(|status| status.name.clone());
    let running = of_all
        .filter(|status| status.is_running())
        .map(|status| (status.name.clone(), status.container_id.clone().unwrap_or_default()));
    Some(NodePod {
        pod: bound,
        version: number(pod.resource_version().as_deref()),
        kubelet_uid: kubelet_uid.cloned().unwrap_or(uid),
        started: started.collect(),
        running: running.collect(),
        failed_admission: status.is_some_and(failed_admission),
    })
}

/// Whether kubelet has refused the pod for devices: a device plugin did (`UnexpectedAdmissionError`), or there were too few of a resource of
/// ours (`OutOfaws.amazon.com/neuron`).
fn failed_admission(status: &PodStatus) -> bool {
    let reason = status.reason.as_deref().unwrap_or_default();
    let too_few = || reason.strip_prefix("OutOf").is_some_and(|resource| Resource::named(resource).is_some());
    status.phase.as_deref() == Some("Failed") && (reason == "UnexpectedAdmissionError" || too_few())
}

fn number(version: Option<&str>) -> u64 {
    version.and_then(|version| version.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is kept of a pod whose container asks for a device and a core, of which a ResourceClaim gives these resources:
    /// how many devices and cores it asks the plugin for.
    fn asked(claimed: &[&str], annotations: Value) -> Option<(u32, u32)> {
        let mapping = |name: &&str| json!({"containerName": "c", "resourceName": name, "requestName": "r"});
        let mappings: Vec<Value> = claimed.iter().map(mapping).collect();
        let limits = json!({"aws.amazon.com/neuron": "1", "aws.amazon.com/neuroncore": "1"});
        let pod = json!({
            "metadata": {"name": "p", "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": {"extendedResourceClaimStatus": {"resourceClaimName": "x", "requestMappings": mappings}},
        });
        let kept = node_pod(&serde_json::from_value(pod).unwrap())?;
        let request = kept.pod.request.unwrap();
        Some((request.containers[0].devices, request.containers[0].cores))
    }

    #[test]
    fn what_a_claim_gives_is_not_asked_of_the_plugin() {
        let (neuron, neuroncore) = ("aws.amazon.com/neuron", "aws.amazon.com/neuroncore");
        assert_eq!(asked(&["example.com/gpu"], json!({})), Some((1, 1)));
        assert_eq!(asked(&[neuron], json!({})), Some((0, 1)));
        assert_eq!(asked(&[neuron, neuroncore], json!({})), None);
        let record = r#"{"v":1,"node":"n1","lnc":1,"containers":{"c":{"devices":[0],"cores":[2]}}}"#;
        let forged = asked(&[neuron, neuroncore], json!({"neuron-scheduler/allocation": record}));
        assert_eq!(forged, Some((1, 1)), "the record says that the plugin was asked");
    }

    #[test]
    fn a_pod_that_was_refused_for_something_else_is_no_failed_admission_of_ours() {
        for (phase, reason, is_ours) in [
            ("Failed", "UnexpectedAdmissionError", true),
            ("Failed", "OutOfaws.amazon.com/neuron", true),
            ("Failed", "OutOfaws.amazon.com/neuroncore", true),
            ("Pending", "OutOfaws.amazon.com/neuron", false),
            ("Failed", "OutOfcpu", false),
            ("Failed", "OutOfnvidia.com/gpu", false),
            ("Failed", "Evicted", false),
        ] {
            let status = serde_json::from_value(json!({"phase": phase, "reason": reason})).unwrap();
            assert_eq!(failed_admission(&status), is_ours, "{phase} {reason}");
        }
    }

    const HASH: &str = "0123456789abcdef0123456789abcdef";

    /// What is kept of a pod with this UID and these annotations that asks for a device.
    fn kept(uid: &str, phase: &str, annotations: &Value) -> NodePod {
        let limits = json!({"aws.amazon.com/neuron": "1"});
        let pod = json!({
            "metadata": {"name": "p", "uid": uid, "annotations": annotations},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": limits}}]},
            "status": {"phase": phase},
        });
        node_pod(&serde_json::from_value(pod).unwrap()).unwrap()
    }

    #[test]
    fn a_mirror_is_of_the_static_pod_that_kubelet_has_by_its_hash_and_nothing_else_is() {
        let other = "8c7a1a3e-0000-4000-8000-000000000001";
        for (annotations, kubelet_uid) in [
            (json!({MIRROR: HASH, CONFIG_HASH: HASH}), HASH),
            (json!({CONFIG_HASH: HASH}), "u"),
            (json!({MIRROR: HASH, CONFIG_HASH: other}), "u"),
            (json!({}), "u"),
        ] {
            assert_eq!(kept("u", "Running", &annotations).kubelet_uid, kubelet_uid, "{annotations}");
        }
    }

    #[test]
    fn a_static_pod_lives_while_one_of_its_mirrors_has_not_ended_and_may_when_all_are_gone() {
        let mirror = json!({MIRROR: HASH, CONFIG_HASH: HASH});
        let mut state = State::default();
        state.known = Some(BTreeMap::new());
        assert_eq!(state.life(HASH), Life::Unseen, "it has no mirror before its admission");
        state.keep(Arc::new(kept("m1", "Running", &mirror)));
        assert_eq!((state.life(HASH), state.life("m1")), (Life::Lives, Life::Unseen));
        state.keep(Arc::new(kept("m1", "Failed", &mirror)));
        assert_eq!(state.life(HASH), Life::Ended);
        state.keep(Arc::new(kept("m2", "Pending", &mirror)));
        assert_eq!(state.life(HASH), Life::Lives);
        state.forget("m1");
        state.forget("m2");
        assert_eq!(state.life(HASH), Life::Unseen, "somebody deleted its mirrors, and kubelet makes another");
    }
}
