//! Which scenarios somebody's cluster cannot run, and why. Pure; called by this folder only.

use k8s_openapi::api::core::v1::Node;

use super::super::install::FAKE_LABEL;
use super::containers::Containers;
use crate::scenario::{Part, Scenario, Step, Target};

/// What a run may do with the cluster.
#[derive(Debug)]
pub(super) struct Abilities<'a> {
    workers: &'a [String],
    containers: &'a Containers,
    /// Whether every node is a container here: a scheduler may run on any of them and must reach the harness proxy.
    all_are_containers: bool,
}

impl<'a> Abilities<'a> {
    /// With these workers of these nodes.
    pub(super) fn new(workers: &'a [String], nodes: &[Node], containers: &'a Containers) -> Self {
        let is_container =
            |node: &Node| node.metadata.name.as_deref().is_some_and(|name| containers.has(name));
        Self { workers, containers, all_are_containers: nodes.iter().all(is_container) }
    }

    /// Why the scenario cannot run; none if it can.
    pub(super) fn skipped(&self, scenario: &Scenario) -> Option<String> {
        let (needed, labelled) = (scenario.nodes.len(), self.workers.len());
        if needed > labelled {
            let verb = if labelled == 1 { "is" } else { "are" };
            return Some(format!(
                "needs {needed} nodes; {labelled} that can be used {verb} labelled {FAKE_LABEL}=true"
            ));
        }
        self.cannot(scenario, &scenario.steps)
    }

    fn cannot(&self, scenario: &Scenario, steps: &[Step]) -> Option<String> {
        steps.iter().find_map(|step| match step {
            Step::Stop(target) | Step::Start(target) | Step::Restart(target) => {
                self.cannot_stop(scenario, target)
            }
            Step::Reboot(reboot) => self.without_shell(scenario, &reboot.node, "reboots a node"),
            Step::RestartUnlisted(unlisted) => {
                self.without_shell(scenario, &unlisted.node, "lets a plugin die on a node")
            }
            Step::Hold(hold) if self.all_are_containers => self.cannot(scenario, &hold.steps),
            Step::Hold(_) => Some(
                "holds the scheduler's calls in a proxy on this machine, which only nodes that are containers of \
                 this machine's Docker reach"
                    .to_owned(),
            ),
            Step::Amid(amid) => self.cannot(scenario, &amid.steps),
            _ => None,
        })
    }

    fn cannot_stop(&self, scenario: &Scenario, Target { part, node }: &Target) -> Option<String> {
        match part {
            Part::Kubelet | Part::Containerd => {
                self.without_shell(scenario, node, &format!("stops {}", part.name()))
            }
            Part::Node => self.without_shell(scenario, node, "freezes a node"),
            Part::ApiServer | Part::Etcd => {
                Some(format!("stops {}, which is not ours in this cluster", part.name()))
            }
            Part::Extender | Part::Plugin | Part::Scheduler => None,
        }
    }

    fn without_shell(&self, scenario: &Scenario, node: &str, does: &str) -> Option<String> {
        let worker = scenario.place_of(node).ok().and_then(|place| self.workers.get(place));
        let worker = worker.filter(|worker| !self.containers.has(worker))?;
        Some(format!(
            "{does}, which takes a shell on it; node {worker} is no container of this machine's Docker"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::library;
    use serde_json::json;

    fn scenario(name: &str) -> Scenario {
        library::all().unwrap().into_iter().find(|scenario| scenario.name == name).unwrap()
    }

    fn nodes(names: &[&str]) -> Vec<Node> {
        let node = |name: &&str| serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        names.iter().map(node).collect()
    }

    /// Why the scenario is skipped on a cluster with these workers and a control plane, containers being these.
    fn skipped(name: &str, workers: &[&str], containers: &[&str]) -> Option<String> {
        let all: Vec<&str> = workers.iter().copied().chain(["control"]).collect();
        let workers: Vec<String> = workers.iter().map(|name| (*name).to_owned()).collect();
        let containers = Containers::of(containers);
        Abilities::new(&workers, &nodes(&all), &containers).skipped(&scenario(name))
    }

    #[test]
    fn placement_needs_nothing_but_enough_nodes() {
        assert_eq!(skipped("documented-cores", &["a"], &[]), None);
        assert_eq!(
            skipped("mixed-fleet", &["a"], &["a", "control"]).unwrap(),
            "needs 3 nodes; 1 that can be used is labelled neuron-e2e/fake=true"
        );
        assert_eq!(skipped("mixed-fleet", &["a", "b", "c"], &[]), None);
    }

    #[test]
    fn kubelet_is_stopped_and_nodes_are_rebooted_only_where_there_is_a_shell() {
        for name in ["kubelet-restarted", "node-rebooted", "force-deleted-while-node-away"] {
            assert_eq!(skipped(name, &["a"], &["a"]), None, "{name}");
            let why = skipped(name, &["a"], &["control"]).unwrap();
            assert!(why.contains("node a is no container of this machine's Docker"), "{why}");
        }
        // Parts of the suite are pods.
        assert_eq!(skipped("plugin-restarted", &["a"], &[]), None);
    }

    #[test]
    fn calls_are_held_only_where_every_node_reaches_the_proxy() {
        let name = "extender-restarted-between-filter-and-bind";
        assert_eq!(skipped(name, &["a"], &["a", "control"]), None);
        assert!(skipped(name, &["a"], &["a"]).unwrap().contains("proxy"));
    }

    #[test]
    fn the_clusters_own_control_plane_is_left_alone() {
        let why = skipped("api-server-away", &["a"], &["a", "control"]).unwrap();
        assert_eq!(why, "stops api-server, which is not ours in this cluster");
    }
}
