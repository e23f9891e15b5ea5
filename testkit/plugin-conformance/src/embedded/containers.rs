//! What stands in for containers on the embedded node: each prints what the plugin gave it. And what kubelet and the plugins
//! said to each other. Called by kubelet; read by `node` and the cases.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_cluster::kubelet::{
    ContainerEnd, ContainerRun, ContainerRuntime, ContainerStart, DeviceMount, PluginCall,
};
use kubelet_api::deviceplugin::v1beta1::ContainerAllocateResponse;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::plugin::Report;

/// The argument of a container that ends by itself.
const ENDS: &str = "--ends";

/// The node's containers, and the calls of its plugins.
pub(crate) struct Containers {
    resource: String,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// UIDs of pods with the names of their containers.
    running: BTreeSet<(String, String)>,
    calls: Vec<PluginCall>,
}

/// What a container prints.
#[derive(Serialize, Deserialize)]
struct Printed {
    ids: Vec<String>,
    env: BTreeMap<String, String>,
    devices: Vec<String>,
    annotations: BTreeMap<String, String>,
}

impl Containers {
    pub(super) fn new(resource: &str) -> Self {
        Self { resource: resource.to_owned(), state: Mutex::default() }
    }

    /// The fields of a container in a pod's spec; with a time it ends well, at once.
    pub(super) fn container(ends_after: Option<Duration>) -> serde_json::Value {
        let arguments: Vec<&str> = ends_after.map(|_| ENDS).into_iter().collect();
        json!({"image": "none", "args": arguments})
    }

    /// What a container has printed.
    pub(super) fn report(log: &str) -> Option<Report> {
        let printed: Printed = serde_json::from_str(log).ok()?;
        Some(Report { ids: printed.ids, text: log.to_owned() })
    }

    /// Whether the container runs.
    pub(super) fn is_running(&self, pod_uid: &str, container: &str) -> bool {
        self.state().running.contains(&(pod_uid.to_owned(), container.to_owned()))
    }

    /// Every container is gone, as after a reboot.
    pub(super) fn kill_all(&self) {
        self.state().running.clear();
    }

    /// How much has been said so far.
    pub(crate) fn said(&self) -> usize {
        self.state().calls.len()
    }

    /// What was said of the plugin's resource since then.
    pub(crate) fn calls_since(&self, said: usize) -> Vec<PluginCall> {
        let state = self.state();
        let calls = state.calls.iter().skip(said);
        calls.filter(|call| resource_of(call) == self.resource).cloned().collect()
    }

    /// The ids of the plugin's newest stream, in the order of their numbers: all that it has listed, though one that vanishes
    /// may be missing just now.
    pub(crate) fn last_ids(&self) -> Vec<String> {
        let (mut by_endpoint, mut newest) = (BTreeMap::<String, BTreeSet<String>>::new(), String::new());
        for call in self.calls_since(0) {
            match call {
                PluginCall::Registered { endpoint, .. } => {
                    by_endpoint.remove(&endpoint);
                }
                PluginCall::Listed { endpoint, devices, .. } => {
                    newest.clone_from(&endpoint);
                    by_endpoint.entry(endpoint).or_default().extend(devices.into_keys());
                }
                PluginCall::Preferred { .. } | PluginCall::Allocated { .. } => {}
            }
        }
        let mut ids: Vec<String> = by_endpoint.remove(&newest).unwrap_or_default().into_iter().collect();
        ids.sort_by_key(|id| (id.len(), id.clone()));
        ids
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The resource that a call is about.
fn resource_of(call: &PluginCall) -> &str {
    match call {
        PluginCall::Registered { resource, .. }
        | PluginCall::Listed { resource, .. }
        | PluginCall::Preferred { resource, .. }
        | PluginCall::Allocated { resource, .. } => resource,
    }
}

/// Whether an answer gives a container anything.
fn gives_anything(answer: &ContainerAllocateResponse) -> bool {
    *answer != ContainerAllocateResponse::default()
}

impl ContainerRuntime for Containers {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        let mut state = self.state();
        state.running.insert((container.pod_uid.clone(), container.container.clone()));
        let is_its_own = |call: &&PluginCall| {
            matches!(call, PluginCall::Allocated { pod_uid, container: name, resource, .. }
                if *pod_uid == container.pod_uid && *name == container.container && *resource == self.resource)
        };
        // A container that was given nothing sees nothing, whatever ids kubelet counts for it.
        let has_something = match state.calls.iter().rev().find(is_its_own) {
            Some(PluginCall::Allocated { answer: Ok(answers), .. }) => {
                answers.first().is_some_and(gives_anything)
            }
            _ => true,
        };
        let ids = container.ids.get(&self.resource).filter(|_| has_something).into_iter().flatten();
        let device = |device: &DeviceMount| {
            format!("{} {} {}", device.container_path, device.host_path, device.permissions)
        };
        let printed = Printed {
            ids: ids.cloned().collect(),
            env: container.env.clone(),
            devices: container.devices.iter().map(device).collect(),
            annotations: container.annotations.clone(),
        };
        let ends = container.args.iter().any(|argument| argument == ENDS).then_some((Duration::ZERO, 0));
        ContainerRun { log: json!(printed).to_string(), ends, ..ContainerRun::default() }
    }

    fn ended(&self, end: &ContainerEnd<'_>) {
        let container = end.container;
        self.state().running.remove(&(container.pod_uid.clone(), container.container.clone()));
    }

    fn plugin_called(&self, call: &PluginCall) {
        self.state().calls.push(call.clone());
    }
}
