//! The Neuron scheduling suite in a simulated cluster: fake hardware, the production programs, and pods that ask for devices.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_cluster::kubelet::{ContainerRun, ContainerStart};
use fake_cluster::scheduler::{ExtenderConfig, ManagedResource};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use neuron_core::names::{INSTANCE_TYPE_LABEL, NEURON, NEURONCORE, NEURONDEVICE, NODE_REPORT};
use neuron_device_plugin::HandoverMode;
use neuron_extender::LeaderElection;
use runtime::system::Address;
use serde_json::{Value, json};
use simulated_cluster::observer::{PodTruth, Truth};
use simulated_cluster::plan::{NodePlan, Place, Settings, node_name};
use simulated_cluster::suite::{
    Books, DeviceFault, MachineFault, NodeTruth, Program, RefusedPod, RunsOn, Size, Start, Suite, Units,
    WaitingPod,
};
use simulator::Host;
use simulator::random::Rng;

use crate::faults::Faults;
use crate::machine::Machine;
use crate::texts::Facts;
use crate::{
    admission, binding, containers, hardware, judge, naive, node_report, pods, reasons, records, settings,
    sizes, texts,
};

/// The folder of a node's fake hardware.
const ROOT: &str = "/";
/// What a label says whose type is another one; a machine of the first says the second.
const OTHER_TYPES: [&str; 2] = ["inf2.24xlarge", "trn1.2xlarge"];
/// The Lease of the extender that leads.
const LEASE: &str = "k8s-neuron-scheduler";
/// What the extender's scores weigh, as in deploy/my-scheduler.yml.
const WEIGHT: i64 = 12;
/// The extender's port.
const PORT: u16 = 12345;

/// The suite, in one cluster.
#[derive(Default)]
pub struct Neuron {
    /// What the extender of each host keeps.
    extenders: Mutex<BTreeMap<Place, neuron_extender::Probe>>,
    /// What the plugin of each node keeps.
    plugins: Mutex<BTreeMap<String, neuron_device_plugin::Probe>>,
    /// What is broken of each node.
    faults: Mutex<Faults>,
    /// The machine of each node.
    machines: Mutex<BTreeMap<String, Arc<Machine>>>,
    /// Whether plugins let a pod have what processes of one that is gone have open.
    shares_with_gone: AtomicBool,
}

impl Neuron {
    fn extenders_by_place(&self) -> MutexGuard<'_, BTreeMap<Place, neuron_extender::Probe>> {
        self.extenders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn plugins(&self) -> MutexGuard<'_, BTreeMap<String, neuron_device_plugin::Probe>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn faults(&self) -> MutexGuard<'_, Faults> {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn machines(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Machine>>> {
        self.machines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the replica at a place calls its pod.
fn extender_on(place: Place) -> String {
    format!("extender on {place}")
}

impl Suite for Neuron {
    fn programs(&self) -> Vec<Program> {
        vec![
            Program { name: "extender", runs_on: RunsOn::Control, port: Some(PORT) },
            Program { name: "plugin", runs_on: RunsOn::EveryNode, port: None },
        ]
    }

    fn has_replicas(&self, program: &Program, settings: &Settings) -> bool {
        program.name == "extender" && settings::lease_duration(settings).is_some()
    }

    fn leader(&self, kind: &str, name: &str, object: &Value) -> Option<Place> {
        let of_extender = kind == "Lease" && name == LEASE;
        let holder = of_extender.then(|| object.pointer("/spec/holderIdentity")?.as_str()).flatten()?;
        let (pod, _) = holder.rsplit_once('_')?;
        [Place::Control, Place::SecondControl].into_iter().find(|place| pod == extender_on(*place))
    }

    fn run(&self, start: Start) -> BoxFuture<'static, anyhow::Result<()>> {
        let milliseconds = |name| settings::milliseconds(&start.settings, name);
        let system = start.process.system();
        let shutdown = start.shutdown;
        if start.program == "extender" {
            let default = neuron_extender::Config::default();
            let config = neuron_extender::Config {
                bind_deadline: milliseconds("bindDeadline").unwrap_or(default.bind_deadline),
                binding_timeout: milliseconds("bindingTimeout").unwrap_or(default.binding_timeout),
                leader_election: settings::lease_duration(&start.settings).map(|lease_duration| {
                    LeaderElection {
                        namespace: "kube-system".to_owned(),
                        lease: LEASE.to_owned(),
                        lease_duration,
                        pod: extender_on(start.place),
                        // The replicas' pods are no objects here: calls follow the Lease.
                        labels_pod: false,
                    }
                }),
                probe: Some(self.extenders_by_place().entry(start.place).or_default().clone()),
                ..default
            };
            return async move {
                let address = Address::Tcp((Ipv4Addr::UNSPECIFIED, PORT).into());
                let listener = system.listen(&address)?;
                neuron_extender::serve(system, config, start.client, listener, shutdown).await
            }
            .boxed();
        }
        let handover = settings::handover(&start.settings);
        self.shares_with_gone.store(handover != HandoverMode::Wait, Ordering::Relaxed);
        let default = neuron_device_plugin::Config::new(&start.node);
        let probe = self.plugins().entry(start.node).or_default().clone();
        let config = neuron_device_plugin::Config {
            root: PathBuf::from(ROOT),
            kubelet_dir: start.kubelet_dir,
            poll: milliseconds("poll").unwrap_or(default.poll),
            // Seldom: a simulated second costs what is read in it.
            health_interval: 2 * milliseconds("poll").unwrap_or(default.poll),
            api_timeout: milliseconds("apiTimeout").unwrap_or(default.api_timeout),
            handover,
            handover_limit: milliseconds("handoverLimit").unwrap_or(default.handover_limit),
            host_proc: PathBuf::from("/proc"),
            probe: Some(probe),
            ..default
        };
        async move { neuron_device_plugin::run(system, config, start.client, shutdown).await }.boxed()
    }

    fn extenders(&self, service: Ipv4Addr, settings: &Settings) -> Vec<ExtenderConfig> {
        let managed = |name: &str| ManagedResource { name: name.to_owned(), ignored_by_scheduler: false };
        vec![ExtenderConfig {
            filter_verb: Some("filter".to_owned()),
            prioritize_verb: Some("prioritize".to_owned()),
            preempt_verb: Some("preempt".to_owned()),
            weight: WEIGHT,
            bind_verb: Some("bind".to_owned()),
            managed_resources: [NEURON, NEURONCORE, NEURONDEVICE].map(managed).into(),
            http_timeout: Duration::from_secs(5),
            node_cache_capable: !settings::sends_whole_nodes(settings),
            ..ExtenderConfig::new(format!("http://{service}:{PORT}"))
        }]
    }

    fn make_machine(&self, host: &Host, name: &str, node: &NodePlan) -> Result<(), String> {
        self.faults().replaced(name);
        let machine = Machine::of(node)?;
        let files = machine.blueprint(name)?.files();
        self.machines().insert(name.to_owned(), machine);
        // As on every machine: by it the plugin sees that it may look into processes.
        let first = host.files().make_folder(Path::new("/proc/1/fd"));
        let written = first.and_then(|()| hardware::write(host.files(), &files));
        written.map_err(|error| format!("{name}: {error}"))
    }

    fn pod(&self, draws: &mut Rng, nodes: &[NodePlan], ends_after: Option<u32>) -> Value {
        pods::pod(draws, nodes, ends_after)
    }

    fn devices(&self, node: &NodePlan) -> u32 {
        Machine::of(node).map_or(0, |machine| machine.devices().into())
    }

    fn device_faults(&self, _: &NodePlan) -> Vec<&'static str> {
        hardware::OF_DEVICES.to_vec()
    }

    fn edits(&self) -> Vec<&'static str> {
        vec!["label removed", "label of another type", "report removed", "report garbled", "report wrong"]
    }

    fn draw_settings(&self, draws: &mut Rng) -> BTreeMap<String, u64> {
        settings::draw(draws)
    }

    fn problem_of_setting(&self, name: &str, value: u64) -> Option<String> {
        settings::problem(name, value)
    }

    fn node_labels(&self, node: &NodePlan) -> BTreeMap<String, String> {
        let instance_type = Machine::of(node).map(|machine| machine.model.name.clone()).unwrap_or_default();
        BTreeMap::from([(INSTANCE_TYPE_LABEL.to_owned(), instance_type)])
    }

    fn units_of_device(&self, node: &NodePlan, device: u32) -> Units {
        Machine::of(node).map(|machine| machine.cores_of(device)).unwrap_or_default()
    }

    fn set_device(&self, fault: DeviceFault<'_>) -> Result<(), String> {
        hardware::set_device(&mut self.faults(), &fault)
    }

    fn machine_faults(&self, node: &NodePlan) -> Vec<(&'static str, bool)> {
        hardware::of_machine(node)
    }

    fn set_machine(&self, fault: MachineFault<'_>) -> Result<(), String> {
        hardware::set_machine(&mut self.faults(), &fault)
    }

    fn may_share_with_gone(&self, node: &str, pod: &PodTruth, now: Duration) -> bool {
        if self.shares_with_gone.load(Ordering::Relaxed) {
            return true;
        }
        // It was admitted after it was bound.
        let since = now.saturating_sub(pod.since);
        self.faults().has(node, hardware::PROCESSES_HIDDEN, since)
    }

    fn pod_edits(&self) -> Vec<&'static str> {
        records::EDITS.to_vec()
    }

    fn edit_pod(&self, node: &NodePlan, pod: &Value, what: &str) -> Option<Value> {
        records::edit(&*Machine::of(node).ok()?, pod, what)
    }

    fn edit(&self, node: &NodePlan, what: &str) -> Option<(Value, Value)> {
        let label = |value: Value| json!({"metadata": {"labels": {INSTANCE_TYPE_LABEL: value}}});
        let report = |value: Value| json!({"metadata": {"annotations": {NODE_REPORT: value}}});
        let right = Machine::of(node).map(|machine| machine.model.name.clone()).ok()?;
        Some(match what {
            "label removed" => (label(Value::Null), label(right.into())),
            "label of another type" => {
                let other = if right == OTHER_TYPES[0] { OTHER_TYPES[1] } else { OTHER_TYPES[0] };
                (label(other.into()), label(right.into()))
            }
            // The plugin writes it again.
            "report removed" => (report(Value::Null), json!({})),
            "report wrong" => (report(Machine::of(node).ok()?.wrong_report().into()), json!({})),
            "report garbled" => (report("{".into()), report(Value::Null)),
            _ => return None,
        })
    }

    fn container(&self, start: &ContainerStart) -> ContainerRun {
        containers::run(start)
    }

    fn units(&self, node: &NodePlan, start: &ContainerStart) -> Result<Units, String> {
        containers::units(&*Machine::of(node)?, start)
    }

    fn units_of_ids(&self, node: &NodePlan, resource: &str, ids: &BTreeSet<String>) -> Result<Units, String> {
        judge::units_of_ids(&*Machine::of(node)?, resource, ids)
    }

    fn can_run(&self, node: &NodePlan, pod: &Value, held: &Units) -> Option<bool> {
        naive::can_be_placed(&*Machine::of(node).ok()?, pod, held)
    }

    fn counts_allow(&self, node: &NodePlan, live: &[&Value], pod: &Value, broken: &Units) -> bool {
        Machine::of(node).is_ok_and(|machine| naive::counts_allow(&machine, live, pod, broken))
    }

    fn judge_refusal(&self, refused: &RefusedPod<'_>) -> Option<String> {
        let machine = Machine::of(refused.node).ok()?;
        let broken = self.faults().lately(&refused.pod.node, &machine, admission::LATELY);
        admission::judge_refusal(&machine, refused, &broken)
    }

    fn excuse(&self, refused: &RefusedPod<'_>) -> Option<&'static str> {
        admission::excuse(refused)
    }

    fn judge_binding(
        &self,
        truth: &Truth,
        node: &NodePlan,
        pod: &PodTruth,
        books: &Books,
    ) -> Option<(String, String)> {
        binding::judge_binding(&*Machine::of(node).ok()?, truth, pod, books)
    }

    fn judge_node(
        &self,
        truth: &Truth,
        node: &NodeTruth<'_>,
        object: &Value,
        settled: &[&PodTruth],
    ) -> Option<(String, String)> {
        let machine = Machine::of(node.node).ok()?;
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        if hardware::shows_no_device(&self.faults(), name, &machine) {
            return None;
        }
        node_report::judge_node(&machine, truth, node, object, settled)
    }

    fn judge_text(&self, waiting: &WaitingPod<'_>) -> Option<String> {
        let facts = facts(waiting);
        texts::judge(&facts, waiting.pod, waiting.message).or_else(|| reasons::judge(&facts, waiting))
    }

    fn judge_told(&self, told: &WaitingPod<'_>) -> Option<String> {
        let facts = facts(told);
        texts::judge_types(&facts, told.pod, told.message).or_else(|| reasons::judge_lasting(&facts, told))
    }

    fn cannot_start(&self, node: &NodePlan, pod: &PodTruth, books: &Books, held: &Units) -> bool {
        Machine::of(node).is_ok_and(|machine| naive::cannot_start(&machine, &pod.object, books, held))
    }

    fn sizes(&self, place: Place, truth: &Truth) -> Vec<Size> {
        match place {
            Place::Control | Place::SecondControl => {
                let probe = self.extenders_by_place().get(&place).cloned();
                let sizes = probe.and_then(|probe| probe.sizes());
                sizes::of_extender(sizes, truth, &self.machines())
            }
            Place::Node(place) => {
                let node = node_name(place);
                let sizes = self.plugins().get(&node).and_then(neuron_device_plugin::Probe::sizes);
                sizes::of_plugin(sizes, &node, truth)
            }
            Place::ApiServer | Place::Scheduler => Vec::new(),
        }
    }

    fn judge_pod(&self, truth: &Truth, node: &NodePlan, pod: &PodTruth) -> Option<(String, String)> {
        // Nobody puts back a record that somebody has taken away: what the pod has is in the node's report. Nor can anybody put right
        // one that is wrong once kubelet has lost its checkpoint: the record was all that told of the containers from before. Or one of
        // containers that a kubelet without plugins has started with nothing.
        let has_nothing = || {
            let mut containers = truth.containers_of(pod).map(|(_, container)| container).peekable();
            containers.peek().is_some() && containers.all(|container| container.start.ids.is_empty())
        };
        let is_lost = || {
            let garbled = truth.garbled.get(&pod.node);
            garbled.is_some_and(|at| truth.containers_of(pod).any(|(_, container)| container.since <= *at))
                || has_nothing()
        };
        if truth.edited_pods.contains(&pod.uid) && (records::is_removed(&pod.object) || is_lost()) {
            return None;
        }
        judge::judge_pod(&*Machine::of(node).ok()?, truth, pod)
    }
}

/// What is so on a pod's nodes.
fn facts(waiting: &WaitingPod<'_>) -> Vec<Facts> {
    let of_node = |node: &NodeTruth<'_>| {
        let (held, broken) = (node.held.clone(), node.broken.clone());
        Machine::of(node.node).ok().map(|machine| Facts { machine, held, broken })
    };
    waiting.nodes.iter().filter_map(of_node).collect()
}

#[cfg(test)]
mod tests {
    use neuron_e2e_engine::scheduler_configuration::ExtenderEntry;

    use super::*;

    #[test]
    fn the_extender_is_asked_as_where_it_is_deployed() {
        let service = Ipv4Addr::new(10, 96, 0, 10);
        let deployed = ExtenderEntry::deployed_at(&format!("http://{service}:{PORT}")).unwrap();
        let simulated = Neuron::default().extenders(service, &Settings::default()).remove(0);
        assert_eq!(format!("{simulated:?}"), format!("{:?}", deployed.for_fake_scheduler().unwrap()));
    }
}
