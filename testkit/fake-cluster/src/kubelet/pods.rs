//! The node's pods: the watch, the queue for admission and who is still active. Runs as one task per kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::admission::{Verdict, admit};
use super::pod_worker;
use super::shared::{Shared, locked};

/// The pods kubelet knows, in the order they came.
#[derive(Debug, Default)]
pub(crate) struct PodTable {
    /// Whether the first list of pods has been worked off (kubelet's `sourcesReady`).
    pub(crate) listed: bool,
    known: Vec<Known>,
    /// What ran when this kubelet started, by pod UID and container name.
    running_at_start: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Known {
    uid: String,
    pod: Arc<Pod>,
    ended: bool,
    stop: CancellationToken,
}

impl PodTable {
    pub(crate) fn new(running_at_start: BTreeSet<(String, String)>) -> Self {
        Self { running_at_start, ..Self::default() }
    }

    pub(crate) fn active_uids(&self) -> BTreeSet<String> {
        self.known.iter().filter(|known| !known.ended).map(|known| known.uid.clone()).collect()
    }

    /// Pods that may still use something.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Arc<Pod>> {
        self.known.iter().filter(|known| !known.ended).map(|known| &known.pod)
    }

    pub(crate) fn was_running(&self, pod_uid: &str, container: &str) -> bool {
        self.running_at_start.contains(&(pod_uid.to_owned(), container.to_owned()))
    }

    /// The pod's containers have all ended for good, or it was rejected.
    pub(crate) fn ended(&mut self, pod_uid: &str) {
        if let Some(known) = self.find(pod_uid) {
            known.ended = true;
        }
    }

    pub(crate) fn forget(&mut self, pod_uid: &str) {
        self.known.retain(|known| known.uid != pod_uid);
    }

    fn find(&mut self, pod_uid: &str) -> Option<&mut Known> {
        self.known.iter_mut().find(|known| known.uid == pod_uid)
    }

    fn insert(&mut self, uid: &str, pod: &Arc<Pod>) -> CancellationToken {
        let stop = CancellationToken::new();
        let known = Known { uid: uid.to_owned(), pod: Arc::clone(pod), ended: false, stop: stop.clone() };
        self.known.push(known);
        stop
    }
}

/// Watches and admits until the kubelet stops; says once when the first list is worked off.
pub(crate) async fn run(shared: Arc<Shared>, first_list_done: oneshot::Sender<()>) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let api: Api<Pod> = Api::all(shared.client.clone());
    let of_node = watcher::Config::default().fields(&format!("spec.nodeName={}", shared.config.node));
    let watch = async {
        let mut stream = std::pin::pin!(watcher(api, of_node).default_backoff());
        while let Some(event) = stream.next().await {
            match event.map(|event| sender.send(event).is_ok()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => tracing::warn!(%error, "pod watch failed, trying again"),
            }
        }
    };
    let admissions = async {
        let mut first_list_done = Some(first_list_done);
        let mut relisted = BTreeMap::new();
        while let Some(event) = events.recv().await {
            // Whatever waits was delivered while the last admission was open.
            let mut batch = vec![event];
            while let Ok(event) = events.try_recv() {
                batch.push(event);
            }
            handle(&shared, batch, &mut relisted).await;
            if locked(&shared.pods).listed
                && let Some(done) = first_list_done.take()
            {
                let _ = done.send(());
            }
        }
    };
    tokio::select! {
        () = shared.stopping.cancelled() => {}
        () = watch => {}
        () = admissions => {}
    }
}

/// Works off a batch of watch events. `relisted` gathers the pods of a list until it is complete.
async fn handle(shared: &Arc<Shared>, batch: Vec<watcher::Event<Pod>>, relisted: &mut BTreeMap<String, Pod>) {
    let mut added = Vec::new();
    for event in batch {
        match event {
            watcher::Event::Init => relisted.clear(),
            watcher::Event::InitApply(pod) => {
                relisted.insert(uid_of(&pod), pod);
            }
            watcher::Event::InitDone => {
                let mut pods: Vec<Pod> = std::mem::take(relisted).into_values().collect();
                pods.sort_by_key(|pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0));
                gone(shared, &pods.iter().map(uid_of).collect());
                for pod in pods {
                    changed(shared, pod, &mut added);
                }
                let first = !locked(&shared.pods).listed;
                if first {
                    admit_all(shared, std::mem::take(&mut added)).await;
                    locked(&shared.pods).listed = true;
                }
            }
            watcher::Event::Apply(pod) => changed(shared, pod, &mut added),
            watcher::Event::Delete(pod) => {
                let uid = uid_of(&pod);
                added.retain(|waiting: &Pod| uid_of(waiting) != uid);
                if let Some(known) = locked(&shared.pods).find(&uid) {
                    known.stop.cancel();
                }
            }
        }
    }
    admit_all(shared, added).await;
}

/// Ends what a complete list no longer has: pods deleted while nobody watched.
fn gone(shared: &Shared, listed: &BTreeSet<String>) {
    for known in locked(&shared.pods).known.iter().filter(|known| !listed.contains(&known.uid)) {
        known.stop.cancel();
    }
    let pods = locked(&shared.pods);
    let is_known = |uid: &str| pods.known.iter().any(|known| known.uid == uid);
    locked(&shared.containers).retain(|uid| listed.contains(uid) || is_known(uid));
}

/// A known pod may be asked to go; a new one waits for admission.
fn changed(shared: &Shared, pod: Pod, added: &mut Vec<Pod>) {
    let uid = uid_of(&pod);
    if let Some(known) = locked(&shared.pods).find(&uid) {
        if pod.metadata.deletion_timestamp.is_some() {
            known.stop.cancel();
        }
        return;
    }
    match added.iter_mut().find(|waiting| uid_of(waiting) == uid) {
        Some(waiting) => *waiting = pod,
        None => added.push(pod),
    }
}

/// Admits what waits, one after another.
async fn admit_all(shared: &Arc<Shared>, mut pods: Vec<Pod>) {
    if locked(&shared.chooser).reverses_admission() {
        pods.reverse();
    }
    for pod in pods {
        if shared.stopping.is_cancelled() {
            return;
        }
        let uid = uid_of(&pod);
        let pod = Arc::new(pod);
        let others: Vec<Arc<Pod>> = locked(&shared.pods).active().cloned().collect();
        let stop = locked(&shared.pods).insert(&uid, &pod);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        let deleting = pod.metadata.deletion_timestamp.is_some();
        if deleting {
            stop.cancel();
            if locked(&shared.containers).runs(&uid).is_empty() {
                locked(&shared.pods).ended(&uid);
            }
        }
        let rejection = if ended {
            locked(&shared.pods).ended(&uid);
            None
        } else if deleting {
            None
        } else {
            match admit(shared, &pod, &others).await {
                Verdict::Admitted => None,
                Verdict::Rejected(rejection) => {
                    locked(&shared.pods).ended(&uid);
                    Some(rejection)
                }
                Verdict::Undecided => return,
            }
        };
        shared.tasks.spawn(pod_worker::run(Arc::clone(shared), pod, stop, rejection, ended));
    }
}

fn uid_of(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}
