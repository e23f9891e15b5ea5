//! Whether a plan asks for what there is with a suite: its parts, devices, faults, edits and settings. Asked before a run.

use simulator::random::stream;

use crate::plan::{Event, NodePlan, Place, Plan, Settings, What, node_name};
use crate::suite::{Program, RunsOn, Suite};

/// All that runs at a place, as [`What::Freeze`] calls it.
const ALL: &str = "node";

/// Where a part runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Control,
    BothControls,
    Scheduler,
    EveryNode,
}

/// A part: its name, and where it runs.
type Part = (&'static str, At);

impl Plan {
    /// What is wrong with it as a plan for this suite, if anything is: what [`Plan::problem`] says, or a part, device, fault, edit
    /// or setting that the suite does not have.
    pub fn problem_with(&self, suite: &dyn Suite) -> Option<String> {
        let mut events = self.events.iter();
        self.problem()
            .or_else(|| self.problem_of_kills(suite))
            .or_else(|| self.problem_of_settings(suite))
            .or_else(|| events.find_map(|event| self.problem_of_event(event, suite)))
    }

    fn problem_of_kills(&self, suite: &dyn Suite) -> Option<String> {
        let parts = parts(suite, &self.settings);
        let is_there = |name: &str| {
            parts.iter().any(|(part, at)| match at {
                At::Control | At::Scheduler => name == *part,
                At::BothControls => name == *part || name == Place::SecondControl.process_name(part),
                At::EveryNode => {
                    (0..self.nodes.len()).any(|node| name == Place::Node(node).process_name(part))
                }
            })
        };
        let (part, _) = self.kills.iter().find(|(part, _)| !is_there(part))?;
        let all = parts.iter().map(|(part, at)| match at {
            At::Control | At::Scheduler => (*part).to_owned(),
            At::BothControls => format!("{part}, {}", Place::SecondControl.process_name(part)),
            At::EveryNode => self.first_to_last(|node| Place::Node(node).process_name(part)),
        });
        Some(format!("kills: there is no part {part:?}; there is {}", all.collect::<Vec<_>>().join(", ")))
    }

    fn problem_of_settings(&self, suite: &dyn Suite) -> Option<String> {
        // A suite draws every setting that it has.
        let known = suite.draw_settings(&mut stream(self.seed, "names of settings"));
        if let Some(wrong) = self.settings.programs.keys().find(|name| !known.contains_key(*name)) {
            return Some(format!("settings: the programs have no {wrong:?}; {}", there_is(known.keys())));
        }
        let mut settings = self.settings.programs.iter();
        settings.find_map(|(name, value)| {
            let problem = suite.problem_of_setting(name, *value)?;
            Some(format!("settings: {name} is {value}; {problem}"))
        })
    }

    fn problem_of_event(&self, event: &Event, suite: &dyn Suite) -> Option<String> {
        let problem = match &event.what {
            What::Freeze { part, .. } if part == ALL => None,
            What::Kill { part, on, .. }
            | What::Freeze { part, on, .. }
            | What::Away { part, on, .. }
            | What::Skew { part, on, .. } => self.problem_of_part(part, *on, &parts(suite, &self.settings)),
            What::Stop { part, on } | What::Second { part, on, .. } => {
                self.problem_of_part(part, *on, &programs(suite, &self.settings))
            }
            What::Device { node, device, fault, .. } => {
                let plan = self.nodes.get(*node)?;
                problem_of_device(&node_name(*node), plan, *device, fault, suite)
            }
            What::Machine { node, fault, .. } => {
                let faults = suite.machine_faults(self.nodes.get(*node)?);
                let is_there = faults.iter().any(|(known, _)| known == fault);
                let names = faults.into_iter().map(|(name, _)| name);
                (!is_there).then(|| format!("a machine has no {fault:?}; {}", there_is(names)))
            }
            What::EditPod { what, .. } => {
                let edits = suite.pod_edits();
                let is_there = edits.contains(&&**what);
                (!is_there).then(|| format!("nobody edits {what:?} of a pod; {}", there_is(edits)))
            }
            What::Edit { what, .. } => {
                let edits = suite.edits();
                let is_there = edits.contains(&&**what);
                (!is_there).then(|| format!("nobody edits {what:?}; {}", there_is(edits)))
            }
            _ => None,
        };
        problem.map(|problem| format!("event at {}: {problem}", event.at))
    }

    fn problem_of_part(&self, name: &str, on: Place, parts: &[Part]) -> Option<String> {
        let is_at = |at: At| match on {
            Place::Control => matches!(at, At::Control | At::BothControls),
            Place::SecondControl => at == At::BothControls,
            Place::Scheduler => at == At::Scheduler,
            Place::Node(_) => at == At::EveryNode,
            Place::ApiServer => false,
        };
        if parts.iter().any(|(part, at)| *part == name && is_at(*at)) {
            return None;
        }
        let all = parts.iter().map(|(part, at)| match at {
            At::Control => format!("{part} at control"),
            At::BothControls => format!("{part} at control and control-2"),
            At::Scheduler => format!("{part} at scheduler"),
            At::EveryNode => format!("{part} at {}", self.first_to_last(node_name)),
        });
        Some(format!("there is no {name:?} at {on}; {}", there_is(all)))
    }

    /// What every node has, by the first and the last node.
    fn first_to_last(&self, name: impl Fn(usize) -> String) -> String {
        match self.nodes.len() {
            0 | 1 => name(0),
            nodes => format!("{} to {}", name(0), name(nodes - 1)),
        }
    }
}

fn programs(suite: &dyn Suite, settings: &Settings) -> Vec<Part> {
    let at = |program: &Program| match program.runs_on {
        RunsOn::Control if suite.has_replicas(program, settings) => At::BothControls,
        RunsOn::Control => At::Control,
        RunsOn::EveryNode => At::EveryNode,
    };
    suite.programs().iter().map(|program| (program.name, at(program))).collect()
}

fn parts(suite: &dyn Suite, settings: &Settings) -> Vec<Part> {
    let of_kubernetes =
        [("kubelet", At::EveryNode), ("scheduler", At::Scheduler), ("controllers", At::Scheduler)];
    programs(suite, settings).into_iter().chain(of_kubernetes).collect()
}

fn problem_of_device(
    name: &str,
    node: &NodePlan,
    device: u32,
    fault: &str,
    suite: &dyn Suite,
) -> Option<String> {
    let faults = suite.device_faults(node);
    if !faults.contains(&fault) {
        return Some(format!("a device of {name} cannot be {fault:?}; {}", there_is(faults)));
    }
    // A machine that nobody knows has none; what is wrong with it is told where it is made.
    let devices = suite.devices(node);
    (devices > 0 && device >= devices)
        .then(|| format!("{name} has no device {device}; it has 0 to {}", devices - 1))
}

fn there_is(all: impl IntoIterator<Item = impl ToString>) -> String {
    let all: Vec<String> = all.into_iter().map(|name| name.to_string()).collect();
    if all.is_empty() { "there is none".to_owned() } else { format!("there is {}", all.join(", ")) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use futures::FutureExt as _;
    use futures::future::BoxFuture;
    use serde_json::{Value, json};
    use simulator::random::Rng;

    use super::*;
    use crate::profile::Profile;
    use crate::suite::{Program, Resource, Start};
    use crate::{RunOptions, Seeded};

    struct Toys;

    impl Suite for Toys {
        fn programs(&self) -> Vec<Program> {
            vec![
                Program { name: "extender", runs_on: RunsOn::Control, port: None },
                Program { name: "plugin", runs_on: RunsOn::EveryNode, port: None },
            ]
        }

        fn run(&self, _: Start) -> BoxFuture<'static, anyhow::Result<()>> {
            std::future::pending().boxed()
        }

        fn resources(&self, _: &NodePlan) -> Vec<Resource> {
            vec![Resource::new("example.com/toy", ["a", "b"])]
        }

        fn device_faults(&self, _: &NodePlan) -> Vec<&'static str> {
            vec!["lost", "hangs"]
        }

        fn edits(&self) -> Vec<&'static str> {
            vec!["label"]
        }

        fn draw_settings(&self, draws: &mut Rng) -> BTreeMap<String, u64> {
            [("poll".to_owned(), draws.u64(..9))].into()
        }
    }

    fn plan(change: impl FnOnce(&mut Plan)) -> Plan {
        let seeded = Seeded::new(1, Profile::Calm, ["toy"; 3], Duration::from_secs(60));
        let mut plan = seeded.plan(&Toys);
        change(&mut plan);
        plan
    }

    fn event(event: Value) -> Plan {
        plan(|plan| plan.events = vec![serde_json::from_value(event).unwrap()])
    }

    #[test]
    fn an_event_about_what_there_is_not_is_told() {
        let wrong = [
            (
                json!({"at": 5, "do": "kill", "part": "extendr", "on": "control"}),
                "there is no \"extendr\" at control; there is extender at control, plugin at n1 to n3, kubelet at n1 to n3, \
                    scheduler at scheduler, controllers at scheduler",
            ),
            (
                json!({"at": 5, "do": "freeze", "part": "extender", "on": {"node": 1}, "seconds": 1}),
                "there is no \"extender\" at n2; there is extender at control, plugin at n1 to n3, kubelet at n1 to n3, \
                    scheduler at scheduler, controllers at scheduler",
            ),
            (
                json!({"at": 5, "do": "second", "part": "kubelet", "on": {"node": 1}, "seconds": 1}),
                "there is no \"kubelet\" at n2; there is extender at control, plugin at n1 to n3",
            ),
            (
                json!({"at": 5, "do": "device", "node": 0, "device": 2, "fault": "lost", "seconds": null}),
                "n1 has no device 2; it has 0 to 1",
            ),
            (
                json!({"at": 5, "do": "device", "node": 0, "device": 0, "fault": "melted", "seconds": null}),
                "a device of n1 cannot be \"melted\"; there is lost, hangs",
            ),
            (
                json!({"at": 5, "do": "edit", "node": 0, "what": "zzz", "seconds": 1}),
                "nobody edits \"zzz\"; there is label",
            ),
        ];
        for (wrong, told) in wrong {
            assert_eq!(event(wrong).problem_with(&Toys), Some(format!("event at 5: {told}")));
        }
    }

    #[test]
    fn a_kill_or_setting_of_what_there_is_not_is_told() {
        let wrong = plan(|plan| plan.kills = vec![("plugin/n3".to_owned(), 5), ("plugin".to_owned(), 5)]);
        let told = "kills: there is no part \"plugin\"; there is extender, plugin/n1 to plugin/n3, \
            kubelet/n1 to kubelet/n3, scheduler, controllers";
        assert_eq!(wrong.problem_with(&Toys).unwrap(), told);
        let wrong = plan(|plan| plan.settings.programs = [("pol".to_owned(), 1)].into());
        assert_eq!(
            wrong.problem_with(&Toys).unwrap(),
            "settings: the programs have no \"pol\"; there is poll"
        );
    }

    #[test]
    fn what_there_is_is_no_problem_and_what_is_wrong_is_not_run() {
        let right = [
            json!({"at": 5, "do": "kill", "part": "controllers", "on": "scheduler"}),
            json!({"at": 5, "do": "freeze", "part": "node", "on": {"node": 2}, "seconds": 1}),
            json!({"at": 5, "do": "skew", "part": "plugin", "on": {"node": 2}, "milliseconds": -1}),
            json!({"at": 5, "do": "device", "node": 0, "device": 1, "fault": "hangs", "seconds": 1}),
            json!({"at": 5, "do": "edit", "node": 0, "what": "label", "seconds": 1}),
        ];
        for right in right {
            assert_eq!(event(right.clone()).problem_with(&Toys), None, "{right}");
        }
        let mut seeded = Seeded::new(1, Profile::Calm, ["toy"], Duration::from_secs(60));
        seeded.kills = vec![("plugin/n2".to_owned(), 5)];
        let told = seeded.run(Toys, RunOptions::default()).unwrap_err().to_string();
        assert!(
            told.starts_with(
                "kills: there is no part \"plugin/n2\"; there is extender, plugin/n1, kubelet/n1"
            ),
            "{told}"
        );
    }
}
