//! What people do by hand: they edit nodes and pods. And what goes wrong with a whole machine. Called by `events`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::{World, locked};
use crate::names::NAMESPACE;
use crate::observer::Violation;
use crate::plan::Place;
use crate::suite::MachineFault;

/// How long who edits a node waits before the next try.
const EDITED_AGAIN: Duration = Duration::from_secs(5);

impl World {
    /// Something about a machine goes wrong. Whether it was right before.
    pub(super) fn machine(self: &Arc<Self>, place: usize, fault: &str, seconds: u32) -> bool {
        let machine = self.replaced(place);
        let key = (place, machine, fault.to_owned());
        if !locked(&self.machine_faults).insert(key.clone()) {
            return false;
        }
        self.set_machine(place, fault, true);
        self.fault_lasts(seconds, move |world| {
            locked(&world.machine_faults).remove(&key);
            let (place, machine, fault) = key;
            if world.replaced(place) == machine {
                world.set_machine(place, &fault, false);
            }
        });
        true
    }

    fn set_machine(&self, place: usize, fault: &str, breaks: bool) {
        let Some(node) = self.nodes.get(place) else { return };
        let host = self.host(Place::Node(place));
        if let Err(why) = self.suite.set_machine(MachineFault { host, node: &node.plan, fault, breaks }) {
            self.watcher.violation(Violation {
                invariant: "plan",
                cause: "a machine that cannot be changed".to_owned(),
                text: why,
                pods: Vec::new(),
            });
        }
    }

    /// Edits what the suite has written on a pod that runs. Whether there is one.
    pub(super) async fn edit_pod(&self, name: &str, what: &str) -> bool {
        let found = {
            let state = self.watcher.state();
            let mut pods = state.truth.pods.values();
            let pod = pods.find(|pod| pod.key.1 == name && pod.phase == "Running" && !pod.is_deleting());
            pod.and_then(|pod| {
                let patch = self.suite.edit_pod(self.plan_of(&pod.node)?, &pod.object, what)?;
                Some((pod.uid.clone(), patch))
            })
        };
        let Some((uid, patch)) = found else { return false };
        let pods: Api<Pod> = Api::namespaced(self.api.client(), NAMESPACE);
        match pods.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(_) => {
                let mut state = self.watcher.state();
                state.truth.edited_pods.insert(uid);
                true
            }
            Err(error) => {
                self.simulation.event("plan", format_args!("pod not edited: {error}"));
                false
            }
        }
    }

    /// Edits a node, for a while. Whether there is such an edit.
    pub(super) fn edit(self: &Arc<Self>, place: usize, what: &str, seconds: u32) -> bool {
        let Some(node) = self.nodes.get(place) else { return false };
        let Some((wrong, right)) = self.suite.edit(&node.plan, what) else { return false };
        let until = self.simulation.elapsed() + Duration::from_secs(seconds.into());
        let mut state = self.watcher.state();
        let edited = state.truth.edited.entry(node.name.clone()).or_default();
        *edited = until.max(*edited);
        drop(state);
        let (is_over, over) = oneshot::channel::<()>();
        let (world, name) = (Arc::clone(self), node.name.clone());
        self.spawn(async move {
            world.patch_node(&name, wrong).await;
            // An undoing that is dropped undoes, too.
            let _ = over.await;
            world.patch_node(&name, right).await;
        });
        self.fault_lasts(seconds, move |_| drop(is_over));
        true
    }

    /// Edits a node as soon as the API server does so; not one that is gone.
    async fn patch_node(&self, name: &str, patch: Value) {
        let nodes: Api<Node> = Api::all(self.api.client());
        let patch = Patch::Merge(patch);
        while let Err(error) = nodes.patch(name, &PatchParams::default(), &patch).await {
            self.simulation.event("plan", format_args!("node not edited: {error}"));
            if matches!(&error, kube::Error::Api(status) if status.code < 500) {
                return;
            }
            sleep(EDITED_AGAIN).await;
        }
    }
}
