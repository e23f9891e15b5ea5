//! Carries out what a plan says happens.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fake_cluster::api::text;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use kubelet_api::podresources::v1::ListPodResourcesRequest;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::unix::connect_by;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use super::checkpoint::CHECKPOINT;
use super::{World, locked};
use crate::api::Whose;
use crate::names::NAMESPACE;
use crate::observer::{PREFERENCES, Violation};
use crate::plan::{ApiRates, Event, NodePlan, Place, What};
use crate::suite::DeviceFault;

/// How long a part that is to be killed before one of its next polls may have none, in seconds.
const KILLED_WITHIN: u32 = 60;

impl World {
    /// Carries out an event at its time. `began` is the beginning of the simulation.
    pub(crate) async fn happens(self: &Arc<Self>, event: Event, began: Instant) {
        sleep_until(began + event.time()).await;
        self.tell(&event.what);
        if let Some(time) = event.what.disturbs_api() {
            let mut state = self.watcher.state();
            state.truth.api_disturbed = state.truth.api_disturbed.max(state.truth.now + time);
        }
        let fault = event.what.fault();
        if self.carry_out(event.what).await
            && let Some(fault) = fault
        {
            *locked(&self.fault_counts).entry(fault).or_default() += 1;
        }
    }

    /// Whether there was what it happens to.
    async fn carry_out(self: &Arc<Self>, what: What) -> bool {
        match what {
            What::Create { pods } => self.create(pods).await,
            What::Delete { pod, grace } => return self.delete(&pod, grace).await,
            What::Job { name, pod, parallelism, completions } => {
                self.controllers.job(&name, pod, parallelism, completions);
            }
            What::StatefulSet { name, pod, replicas } => self.controllers.stateful_set(&name, pod, replicas),
            What::DeleteOwner { name } => self.controllers.delete_owner(&name),
            What::Compact => self.api.compact(),
            What::Kill { part, on, after_polls: None } => {
                return self.with_part(&part, on, |part| part.kill());
            }
            What::Kill { part, on, after_polls: Some(polls) } => {
                self.with_part(&part, on, |part| part.kill_after(polls));
                self.fault_lasts(KILLED_WITHIN, move |world| {
                    world.with_part(&part, on, |part| part.kill_after(u64::MAX));
                });
                // It is counted when it happens.
                return false;
            }
            What::Stop { part, on } => {
                return self.with_part(&part, on, |part| part.stop());
            }
            What::Freeze { part, on, seconds } => {
                let is_there = self.with_part(&part, on, |part| part.freeze());
                self.fault_lasts(seconds, move |world| {
                    world.with_part(&part, on, |part| part.thaw());
                });
                return is_there;
            }
            What::Away { part, on, seconds } => {
                let is_there = self.with_part(&part, on, |part| part.goes_away());
                if let Some(seconds) = seconds {
                    self.fault_lasts(seconds, move |world| {
                        world.with_part(&part, on, |part| part.let_run());
                    });
                }
                return is_there;
            }
            What::ForeignList { node } => self.list_as_a_stranger(node),
            What::CheckpointLost { node } => self.lose_checkpoint(node),
            What::PreferencesIgnored { node, seconds } => return self.ignore_preferences(node, seconds),
            What::PluginFilesRemoved { node } => self.remove_plugin_files(node),
            What::SocketsReset { node } => self.reset_sockets(node),
            What::CheckpointUnwritable { node, seconds } => self.refuse_writes(node, seconds),
            What::CheckpointUnreadable { node, hangs, seconds } => self.refuse_reads(node, hangs, seconds),
            What::CheckpointOlder { node, seconds } => {
                self.undo_next_write(node, seconds);
                // It is counted when it happens.
                return false;
            }
            What::CheckpointGarbled { node } => return self.garble_checkpoint(node),
            What::Second { part, on, seconds } => return self.second(&part, on, seconds),
            What::Skew { part, on, milliseconds } => {
                let nanoseconds = milliseconds.saturating_mul(1_000_000);
                return self.with_part(&part, on, |part| part.set_skew(nanoseconds));
            }
            What::PowerLoss { node, seconds: Some(seconds) } => {
                self.power_off(node);
                self.fault_lasts(seconds, move |world| world.power_on(node));
            }
            What::PowerLoss { node, seconds: None } => {
                if !self.lose_node(node) {
                    return false;
                }
                self.power_off(node);
            }
            What::ReplaceNode { node, seconds } => self.replace_node(node, seconds).await,
            What::Cut { from, to, both, reset, seconds } => self.cut([from, to], both, reset, seconds),
            What::ApiDown { seconds } => {
                self.api.set_available(false);
                self.fault_lasts(seconds, |world| world.api.set_available(true));
            }
            What::ApiFaults { rates, seconds } => self.api_faults(Whose::Suite, rates, seconds),
            What::ClusterApiFaults { rates, seconds } => self.api_faults(Whose::Cluster, rates, seconds),
            What::WatchLag { on, milliseconds, seconds } => {
                self.conditions.set_lag(on, Duration::from_millis(milliseconds.into()));
                self.fault_lasts(seconds, move |world| world.conditions.set_lag(on, Duration::ZERO));
            }
            What::CacheBehind { on, writes, seconds } => {
                self.conditions.set_behind(on, writes.into());
                self.fault_lasts(seconds, move |world| world.conditions.set_behind(on, 0));
            }
            What::Device { node, device, fault, seconds } => {
                if self.is_broken(node, device) {
                    return false;
                }
                self.set_device(node, device, &fault, true);
                if let Some(seconds) = seconds {
                    let machine = self.replaced(node);
                    self.fault_lasts(seconds, move |world| {
                        if world.replaced(node) == machine {
                            world.set_device(node, device, &fault, false);
                        }
                    });
                }
            }
            What::Machine { node, fault, seconds } => return self.machine(node, &fault, seconds),
            What::EditPod { pod, what } => return self.edit_pod(&pod, &what).await,
            What::Edit { node, what, seconds } => return self.edit(node, &what, seconds),
            What::Rest { seconds } => self.rest(Duration::from_secs(seconds.into())).await,
        }
        true
    }

    fn tell(&self, what: &What) {
        let words = match what {
            What::Create { pods } => {
                let names = pods.iter().map(|pod| text(pod, "/metadata/name"));
                format!("create {}", names.collect::<Vec<_>>().join(", "))
            }
            what => serde_json::to_string(what).unwrap_or_default(),
        };
        self.simulation.event("plan", format_args!("{words}"));
    }

    async fn create(&self, pods: Vec<Value>) {
        let api: Api<Pod> = Api::namespaced(self.api.client(), NAMESPACE);
        for pod in pods {
            let created = match serde_json::from_value(pod) {
                Ok(pod) => api.create(&PostParams::default(), &pod).await.map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = created {
                self.simulation.event("plan", format_args!("not created: {error}"));
            }
        }
    }

    /// Deletes a pod. Whether there was one.
    pub(crate) async fn delete(&self, pod: &str, grace: Option<u32>) -> bool {
        let api: Api<Pod> = Api::namespaced(self.api.client(), NAMESPACE);
        let parameters = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        let deleted = api.delete(pod, &parameters).await;
        if let Err(error) = &deleted {
            self.simulation.event("plan", format_args!("not deleted: {error}"));
        }
        deleted.is_ok()
    }

    /// Changes a part, or with `node` all at a place. Whether any runs.
    pub(super) fn with_part(&self, name: &str, place: Place, change: impl Fn(&super::Part)) -> bool {
        let mut parts = self.parts_at(place);
        parts.retain(|part| name == "node" || part.name == name);
        let runs = parts.iter().any(|part| part.runs());
        parts.iter().for_each(|part| change(part));
        runs
    }

    fn second(self: &Arc<Self>, name: &str, place: Place, seconds: u32) -> bool {
        let Some(part) = self.part(name, place) else { return false };
        // It has one beside it all the time.
        if !matches!(place, Place::Node(_)) && self.part(name, Place::SecondControl).is_some() {
            return false;
        }
        let time = Duration::from_secs(seconds.into());
        let now = self.simulation.elapsed();
        let until = now + time;
        let mut state = self.watcher.state();
        let doubled = state.truth.doubled.entry(name.to_owned()).or_default();
        // A third one would find its port taken: there is one host more than the first one's.
        if place == Place::Control && *doubled > now {
            return false;
        }
        *doubled = until.max(*doubled);
        drop(state);
        let world = Arc::clone(self);
        self.spawn(async move {
            let second = part.beside();
            if tokio::time::timeout(time, second.run(&world)).await.is_err() {
                second.kill();
            }
        });
        true
    }

    fn api_faults(self: &Arc<Self>, whose: Whose, rates: ApiRates, seconds: u32) {
        let number = self.conditions.override_rates(whose, rates);
        self.fault_lasts(seconds, move |world| world.conditions.restore_rates(number));
    }

    fn list_as_a_stranger(self: &Arc<Self>, node: usize) {
        let stranger = self.host(Place::Node(node)).process("stranger");
        let (system, world) = (stranger.system(), Arc::clone(self));
        self.spawn(async move {
            let socket = Path::new(super::node::KUBELET_DIR).join("pod-resources/kubelet.sock");
            let asked = async {
                let channel = connect_by(&socket, system.dialler(), system.executor()).await.ok()?;
                PodResourcesListerClient::new(channel).list(ListPodResourcesRequest {}).await.ok()
            };
            let time = Duration::from_secs(10);
            if !matches!(tokio::time::timeout(time, asked).await, Ok(Some(_))) {
                world.simulation.event("stranger", format_args!("kubelet does not tell"));
            }
            stranger.exit();
        });
    }

    fn remove_plugin_files(&self, node: usize) {
        let files = self.host(Place::Node(node)).files();
        let folder = Path::new(super::node::KUBELET_DIR).join("device-plugins");
        let all = files.names(&folder);
        let others = all.iter().filter(|name| !["kubelet.sock", CHECKPOINT].contains(&name.as_str()));
        others.for_each(|name| files.remove_all(&folder.join(name)));
        // kubelet loses the plugin, which has to serve and register again.
        self.parts_at(Place::Node(node)).iter().for_each(|part| part.is_disturbed());
    }

    fn reset_sockets(&self, node: usize) {
        let place = Place::Node(node);
        let host = self.host(place);
        self.simulation.reset_connections(host, host);
        // kubelet loses the plugin, which has to register again.
        self.parts_at(place).iter().for_each(|part| part.is_disturbed());
    }

    /// Whether the node has a kubelet.
    fn ignore_preferences(self: &Arc<Self>, place: usize, seconds: u32) -> bool {
        let Some(name) = self.nodes.get(place).map(|node| node.name.clone()) else { return false };
        let part = format!("{PREFERENCES}/{name}");
        if !self.watcher.ignore_preferences(&name, true) {
            return false;
        }
        self.watcher.disturbs(part.clone(), Duration::MAX);
        self.fault_lasts(seconds, move |world| {
            world.watcher.ignore_preferences(&name, false);
            world.watcher.disturbs(part, world.simulation.elapsed());
        });
        true
    }

    fn power_off(&self, node: usize) {
        let place = Place::Node(node);
        self.parts_at(place).iter().for_each(|part| part.hold_back());
        let host = self.host(place);
        host.lose_power();
        // What its kernel was still sending is lost.
        self.conditions.reset(place);
        host.files().remove_all(Path::new(super::node::CONTAINERS));
        self.watcher.containers_vanish(host);
    }

    fn power_on(&self, node: usize) {
        self.parts_at(Place::Node(node)).iter().for_each(|part| part.let_run());
    }

    async fn replace_node(self: &Arc<Self>, place: usize, seconds: u32) {
        let Some(node) = self.nodes.get(place) else { return };
        self.power_off(place);
        node.replaced.fetch_add(1, Ordering::Relaxed);
        let host = self.host(Place::Node(place));
        host.files().remove_all(Path::new("/"));
        if let Err(why) = self.suite.make_machine(host, &node.name, &node.plan) {
            self.simulation.event("plan", format_args!("no new machine: {why}"));
        }
        self.watcher.state().truth.broken.remove(&node.name);
        let nodes: Api<Node> = Api::all(self.api.client());
        if let Err(error) = nodes.delete(&node.name, &DeleteParams::default()).await {
            self.simulation.event("plan", format_args!("node not deleted: {error}"));
        }
        if self.find_node(place) {
            self.power_on(place);
        }
        self.fault_lasts(seconds, move |world| world.power_on(place));
    }

    fn cut(self: &Arc<Self>, ends: [Place; 2], both: bool, reset: bool, seconds: u32) {
        let [from, to] = ends.map(|place| self.host(place));
        let mut links = vec![self.simulation.link(from, to)];
        if both {
            links.push(self.simulation.link(to, from));
        }
        links.iter().for_each(|link| link.set_cut(true));
        if reset {
            // The ways to the API server are messages, all others are connections.
            ends.into_iter().for_each(|place| self.conditions.reset(place));
            self.simulation.reset_connections(from, to);
        }
        self.fault_lasts(seconds, move |_| links.iter().for_each(|link| link.set_cut(false)));
    }

    /// How often a node's machine was replaced.
    pub(super) fn replaced(&self, place: usize) -> Option<u64> {
        self.nodes.get(place).map(|node| node.replaced.load(Ordering::Relaxed))
    }

    /// Whether something about the device is broken, as it may be for good.
    fn is_broken(&self, place: usize, device: u32) -> bool {
        self.nodes.get(place).is_some_and(|node| {
            let units = self.suite.units_of_device(&node.plan, device);
            let state = self.watcher.state();
            state.truth.broken.get(&node.name).is_some_and(|broken| !broken.is_disjoint(&units))
        })
    }

    fn set_device(&self, place: usize, device: u32, fault: &str, breaks: bool) {
        let Some(node) = self.nodes.get(place) else { return };
        let host = self.host(Place::Node(place));
        let units = self.suite.units_of_device(&node.plan, device);
        match self.suite.set_device(DeviceFault { host, node: &node.plan, device, fault, breaks }) {
            Ok(()) => {
                let mut state = self.watcher.state();
                let broken = state.truth.broken.entry(node.name.clone()).or_default();
                if breaks {
                    broken.extend(units);
                } else {
                    broken.retain(|unit| !units.contains(unit));
                }
            }
            Err(why) => self.watcher.violation(Violation {
                invariant: "plan",
                cause: "a device that cannot be changed".to_owned(),
                text: why,
                pods: Vec::new(),
            }),
        }
    }

    /// The node's plan by its name.
    pub(crate) fn plan_of(&self, name: &str) -> Option<&NodePlan> {
        self.nodes.iter().find(|node| node.name == name).map(|node| &node.plan)
    }
}
