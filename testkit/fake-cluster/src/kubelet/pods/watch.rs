//! Watches the node's pods and admits new ones, one after another. One task per kubelet.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::watcher;
use runtime::reached;
use tokio::sync::{mpsc, oneshot};

use super::admission::{Admission, admit};
use super::{ends, grace, worker};
use crate::kubelet::shared::{Shared, locked};
use crate::reflector::reflect;

/// Watches and admits until the kubelet stops. `first_list_done` is sent once the first list has been handled.
pub(crate) async fn run(shared: Arc<Shared>, first_list_done: oneshot::Sender<()>) {
    let (sender, mut events) = mpsc::unbounded_channel();
    let api: Api<Pod> = Api::all(shared.client.clone());
    let of_node = watcher::Config::default().fields(&format!("spec.nodeName={}", shared.config.node));
    let watch = async {
        let mut stream = std::pin::pin!(reflect(&shared.system, api, of_node));
        while let Some(event) = stream.next().await {
            match event.map(|event| sender.send(event).is_ok()) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(node = shared.config.node, %error, "the watch of pods failed; it starts again")
                }
            }
        }
    };
    let admissions = async {
        let mut first_list_done = Some(first_list_done);
        let mut relisted = BTreeMap::new();
        while let Some(event) = events.recv().await {
            // What has queued up was delivered while the last admission was open.
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
    // Events are taken before admission goes on, so that one batch has all that waited.
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = watch => {}
        () = admissions => {}
    }
}

/// Handles a batch of watch events. `relisted` collects the pods of a list until it is complete.
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
                end_unlisted(shared, &pods.iter().map(uid_of).collect());
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
                locked(&shared.pods).set_gone(&uid);
                end_orphans(shared, |pod| *pod == uid);
            }
        }
    }
    admit_all(shared, added).await;
}

/// Ends the pods that a complete list does not have: they were deleted while the watch was away.
fn end_unlisted(shared: &Arc<Shared>, listed: &BTreeSet<String>) {
    locked(&shared.pods).set_unlisted_gone(listed);
    end_orphans(shared, |pod| !listed.contains(pod));
}

/// Ends the containers of those of the `gone` pods that are not known: they were deleted before they were admitted again.
fn end_orphans(shared: &Arc<Shared>, gone: impl Fn(&String) -> bool) {
    let pods = locked(&shared.pods);
    let mut orphans = locked(&shared.containers).pods();
    orphans.retain(|pod| gone(pod) && !pods.contains(pod));
    if !orphans.is_empty() {
        reached("cluster: containers were ended that no pod knew");
        shared.spawn(ends::end_orphans(Arc::clone(shared), orphans.into_iter().collect()));
    }
}

/// Ends a known pod that is being deleted; queues an unknown one for admission.
fn changed(shared: &Shared, pod: Pod, added: &mut Vec<Pod>) {
    let uid = uid_of(&pod);
    let mut pods = locked(&shared.pods);
    if pods.contains(&uid) {
        if pod.metadata.deletion_timestamp.is_some() {
            pods.stop(&uid, grace::of_deletion(&pod));
        }
        pods.update(&uid, pod);
        return;
    }
    match added.iter_mut().find(|waiting| uid_of(waiting) == uid) {
        Some(waiting) => *waiting = pod,
        None => added.push(pod),
    }
}

/// Admits pods one after another.
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
        let followed = locked(&shared.pods).insert(&uid, &pod);
        let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
        let ended = matches!(phase, Some("Succeeded" | "Failed"));
        let deleting = pod.metadata.deletion_timestamp.is_some();
        if deleting {
            let has_run = !locked(&shared.containers).runs(&uid).is_empty();
            let mut pods = locked(&shared.pods);
            pods.stop(&uid, grace::of_deletion(&pod));
            if !has_run {
                pods.set_ended(&uid);
            }
        }
        let rejection = if ended {
            locked(&shared.pods).set_ended(&uid);
            None
        } else if deleting {
            None
        } else {
            match admit(shared, &pod, &others).await {
                Admission::Admitted => None,
                Admission::Rejected(rejection) => {
                    locked(&shared.pods).set_ended(&uid);
                    Some(rejection)
                }
                Admission::Undecided => return,
            }
        };
        shared.spawn(worker::run(Arc::clone(shared), pod, followed, rejection, ended));
    }
}

fn uid_of(pod: &Pod) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}
