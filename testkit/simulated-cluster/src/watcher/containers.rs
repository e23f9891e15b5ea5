//! Containers as they start and end: what hardware each really has, and whether another one has it. Called by kubelets.

use std::sync::Arc;

use fake_cluster::kubelet::{ContainerEnd, ContainerRun, ContainerRuntime, ContainerStart, PluginCall};
use simulator::Host;

use super::{Watcher, locked, processes};
use crate::observer::{ContainerTruth, PodTruth, Violation, without_numbers};

/// One node's containers.
struct Containers {
    watcher: Arc<Watcher>,
    host: Host,
}

impl Watcher {
    /// The containers of the node on this host, which is called as that.
    pub(crate) fn runtime(self: &Arc<Self>, host: &Host) -> Arc<dyn ContainerRuntime> {
        Arc::new(Containers { watcher: Arc::clone(self), host: host.clone() })
    }

    fn container_starts(&self, node: &str, start: &ContainerStart) {
        let pod = format!("{}/{}", start.pod_namespace, start.pod_name);
        let Some(plan) = self.nodes.get(node) else { return };
        let units = match self.suite.units(plan, start) {
            Ok(units) => units,
            Err(why) => {
                return self.violation(Violation {
                    invariant: "contents",
                    cause: without_numbers(&why),
                    text: format!("container {} of {pod} on {node}: {why}", start.container),
                    pods: vec![pod],
                });
            }
        };
        self.simulation.event("container", format_args!("{pod} {} starts with {units:?}", start.container));
        let mut state = self.state();
        let is_gone = |uid: &String| state.truth.pods.get(uid).is_none_or(PodTruth::has_ended);
        let new = state.truth.pods.get(&start.pod_uid);
        let may_share = new.is_some_and(|pod| self.suite.may_share_with_gone(node, pod, state.truth.now));
        let twice = state
            .truth
            .containers_on(node)
            .filter(|(_, other)| !other.units.is_disjoint(&units))
            .find(|((_, uid, _), _)| !(may_share && is_gone(uid)));
        let twice = twice.map(|(_, other)| Arc::clone(&other.start));
        let since = state.truth.now;
        let key = (node.to_owned(), start.pod_uid.clone(), start.container.clone());
        // One that starts again has had its hardware all the while.
        let is_change = state.truth.ended.get(&key).is_none_or(|(before, _)| before.units != units);
        let container = ContainerTruth { start: Arc::new(start.clone()), units, since };
        state.truth.containers.insert(key, container);
        if is_change {
            state.truth.changes_on(node);
        }
        let phase =
            twice.as_ref().and_then(|other| Some(state.truth.pods.get(&other.pod_uid)?.phase.clone()));
        drop(state);
        if let Some(other) = twice {
            let other_pod = format!("{}/{}", other.pod_namespace, other.pod_name);
            let cause = match phase.as_deref() {
                _ if other.pod_uid == start.pod_uid => "two containers of one pod",
                None => "a pod whose object is gone and a new one",
                // kubelet says so before their containers have ended.
                Some("Failed" | "Succeeded") => "a pod that has failed and a new one",
                Some(_) => "two pods that exist",
            };
            self.violation(Violation {
                invariant: "exclusive",
                cause: cause.to_owned(),
                text: format!(
                    "on {node} {pod} ({}) was given what {other_pod} ({}) has",
                    start.container, other.container
                ),
                pods: vec![pod, other_pod],
            });
        }
    }

    fn container_ends(&self, node: &str, start: &ContainerStart) {
        let (pod, container) = (&start.pod_name, &start.container);
        self.simulation.event("container", format_args!("{}/{pod} {container} ends", start.pod_namespace));
        let key = (node.to_owned(), start.pod_uid.clone(), container.clone());
        self.state().truth.container_ends(key);
    }

    /// A node has lost its power, and with it every container.
    pub(crate) fn containers_vanish(&self, host: &Host) {
        processes::vanish(host.files());
        locked(&self.kubelets).remove(host.name());
        self.state().truth.containers.retain(|(on, _, _), _| on != host.name());
    }
}

impl ContainerRuntime for Containers {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        processes::start(self.host.files(), container);
        self.watcher.container_starts(self.host.name(), container);
        self.watcher.suite.container(container)
    }

    fn ended(&self, end: &ContainerEnd<'_>) {
        processes::end(self.host.files(), end.container);
        self.watcher.container_ends(self.host.name(), end.container);
    }

    fn plugin_called(&self, call: &PluginCall) {
        if matches!(call, PluginCall::Allocated { answer: Err(_), .. }) {
            *self.watcher.state().asked_in_vain.entry(self.host.name().to_owned()).or_default() += 1;
        }
    }
}
