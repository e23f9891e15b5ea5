//! Whether the extender's other texts are true, of a cluster that nothing has changed for a while: those that say what is broken,
//! what can never be, and what is not known. Asked by the suite beside `texts`.

use neuron_core::ids::DeviceSet;
use serde_json::Value;
use simulated_cluster::observer::PodTruth;
use simulated_cluster::suite::{Units, WaitingPod};

use crate::device_models::{is_model, may_run_on, wanted};
use crate::judge::{counts, judge_pod};
use crate::machine::Machine;
use crate::naive::{can_be_placed, steps};
use crate::openings;
use crate::texts::{Facts, after, fresh, numbers};

/// Texts that a cluster at rest has no reason for: every node is known by its label and its report, no pod has a claim, or asks for what
/// cannot be read.
const OF_NO_REST: &[&str] = &[
    "the Neuron scheduler knows no node of this name",
    "the pods and nodes of the cluster have not been listed yet",
    "the watch of pods and nodes is disconnected",
    "the watch of pods and nodes is being taken up again",
    "the watch of the device plugins' Leases is being taken up again",
    "has no label ",
    " is not in the catalog ",
    "the node's Neuron device plugin reports",
    " cannot run with LNC ",
    "the report of a node of instance type ",
    "node annotation ",
    " asks for aws.amazon.com/",
    " asks for both aws.amazon.com/",
    " through a DeviceClass, ",
    " are reserved for a pod of which it is not known yet whether it was bound",
    " has not renewed its Lease ",
    "not decided: ",
];

/// Device models that a pod may name, by the documentation (docs/deploy.md).
const MOST_MODELS: usize = 16;

/// What is wrong with the text, if anything is: each of its reasons must be true of one node.
pub(crate) fn judge(nodes: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let judges = [
        unhealthy,
        too_small,
        never_together,
        too_many,
        other_model,
        no_model,
        too_many_models,
        hand_down,
        unknown_holder,
    ];
    let of_no_rest = || {
        let words = OF_NO_REST.iter().find(|words| waiting.message.contains(**words))?;
        Some(format!("a cluster at rest is told {:?}", words.trim()))
    };
    judges
        .iter()
        .find_map(|judge| judge(nodes, waiting))
        .or_else(of_no_rest)
        .or_else(|| openings::judge(waiting.message))
}

/// What is wrong with reasons that no change of what is free takes away.
pub(crate) fn judge_lasting(nodes: &[Facts], told: &WaitingPod<'_>) -> Option<String> {
    let judges = [too_small, never_together, too_many, other_model, no_model, too_many_models];
    judges.iter().find_map(|judge| judge(nodes, told)).or_else(|| openings::judge(told.message))
}

/// The named devices are broken, and if they were not the pod would fit.
fn unhealthy(nodes: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let is_wrong = |rest: &str| {
        let named: Option<DeviceSet> =
            rest.trim_start_matches('s').split_once(" if ").and_then(|(ids, _)| ids.trim().parse().ok());
        !nodes.iter().any(|facts| {
            let cores = |device| facts.machine.cores_of(u32::from(device));
            let named: Option<Units> = named.as_ref().map(|devices| devices.iter().flat_map(cores).collect());
            named.is_some_and(|named| {
                let others: Units = facts.broken.difference(&named).chain(&facts.held).copied().collect();
                !named.is_empty()
                    && named.is_subset(&facts.broken)
                    && can_be_placed(&facts.machine, waiting.pod, &others) != Some(false)
            })
        })
    };
    after(waiting.message, "would fit on unhealthy Neuron device")
        .any(is_wrong)
        .then(|| "devices are said to be unhealthy that are not, or not to matter".to_owned())
}

/// An empty machine of that size cannot run the pod.
fn too_small(nodes: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let is_wrong = |rest: &str| {
        let in_all = rest.split_once("; the node has ").map(|(_, rest)| rest);
        let Some([total]) = in_all.and_then(|rest| numbers(rest, [""])) else { return true };
        let as_devices = rest.starts_with("devices");
        let asked = after(rest, " asked ").next().and_then(|rest| numbers(rest, [""]));
        let beside = after(rest, " beside ").next().and_then(|rest| numbers(rest, [""]));
        asked != Some([fresh(waiting.pod, as_devices)])
            || beside.is_some_and(|[beside]| as_devices || beside != fresh(waiting.pod, true))
            || !nodes
                .iter()
                .any(|facts| facts.all(as_devices) == total && never_fits(&facts.machine, waiting.pod))
    };
    after(waiting.message, "the node is too small: Neuron ")
        .any(is_wrong)
        .then(|| "a node is said to be too small for a pod that it could run".to_owned())
}

/// An empty machine of that type cannot run the pod.
fn never_together(nodes: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let is_wrong = |rest: &str| {
        let name = rest.split(':').next().unwrap_or_default();
        !nodes.iter().any(|facts| facts.machine.model.name == name && never_fits(&facts.machine, waiting.pod))
    };
    after(waiting.message, "containers never fit together on ")
        .any(is_wrong)
        .then(|| "containers are said never to fit together that could".to_owned())
}

/// More containers ask than are placed.
fn too_many(_: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let (before, rest) =
        waiting.message.split_once(" containers of the pod ask for Neuron hardware, at most ")?;
    let said: Option<usize> = before.rsplit(' ').next().and_then(|number| number.parse().ok());
    let most = numbers(rest, [""]).and_then(|[most]| usize::try_from(most).ok());
    let containers = ["/spec/initContainers", "/spec/containers"]
        .into_iter()
        .flat_map(|pointer| waiting.pod.pointer(pointer).and_then(Value::as_array).into_iter().flatten());
    let asking = containers.filter(|container| !counts(container).is_empty()).count();
    (said != Some(asking) || most.is_none_or(|most| asking <= most))
        .then(|| "not so many containers ask".to_owned())
}

/// A node of that type is of none of the models that the pod is restricted to.
fn other_model(nodes: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let is_wrong = |rest: &str| {
        let Some((models, rest)) = rest.split_once(" by its annotation ") else { return true };
        let Some((_, of_type)) = rest.split_once(", the node is a ") else { return true };
        let is_so = |facts: &Facts| {
            of_type.starts_with(&*facts.machine.model.name) && !may_run_on(waiting.pod, &facts.machine)
        };
        wanted(waiting.pod).is_none_or(|wanted| wanted.join(",") != models) || !nodes.iter().any(is_so)
    };
    after(waiting.message, "the pod is restricted to device models ")
        .any(is_wrong)
        .then(|| "a node is said to be of another device model that is not".to_owned())
}

/// The pod's author has written that word, which is no model.
fn no_model(_: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let (before, _) = waiting.message.split_once("\", which is no device model; ")?;
    let word = before.rsplit('"').next().unwrap_or_default();
    let is_written = wanted(waiting.pod).is_some_and(|words| words.contains(&word));
    (!is_written || is_model(word)).then(|| "a word is said to be no device model that is one".to_owned())
}

/// The pod's author has written more words than are read.
fn too_many_models(_: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let is_wrong = |_| wanted(waiting.pod).is_none_or(|words| words.len() <= MOST_MODELS);
    after(waiting.message, " names more than ")
        .any(is_wrong)
        .then(|| "not so many device models are named".to_owned())
}

/// Init containers hand down so many to a container that asks for so many, and on one node that is not safe.
fn hand_down(nodes: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let all = steps(waiting.pod);
    let is_wrong = |rest: &str| {
        let said = rest.split_once(" asks for ").and_then(|(container, rest)| {
            let [count] = numbers(rest, [""])?;
            let (_, rest) = rest.split_once(", init containers hand down ")?;
            let [handed_down] = numbers(rest, [""])?;
            Some((container, count, handed_down))
        });
        let is_there = said.is_some_and(|(container, count, handed_down)| {
            all.iter().any(|step| {
                (step.container.as_str(), step.count, step.handed_down) == (container, count, handed_down)
            })
        });
        // What is placed on one of them is judged as a pod that waits in vain.
        !is_there
            || !nodes
                .iter()
                .any(|facts| can_be_placed(&facts.machine, waiting.pod, &facts.taken()) != Some(true))
    };
    after(waiting.message, "could hand down an unlinked set: container ")
        .any(is_wrong)
        .then(|| "what is handed down is said to be unsafe, and is not".to_owned())
}

/// The named pods exist, and what they hold is not on record.
fn unknown_holder(_: &[Facts], waiting: &WaitingPod<'_>) -> Option<String> {
    let is_unknown = |pod: &PodTruth| {
        let node = waiting.nodes.iter().find(|node| node.name == pod.node);
        let machine = node.and_then(|node| Machine::of(node.node).ok());
        let is_on_record =
            |machine: &Machine| pod.phase == "Running" && judge_pod(machine, waiting.truth, pod).is_none();
        !pod.has_ended()
            && !steps(&pod.object).is_empty()
            && machine.is_some_and(|machine| !is_on_record(&machine))
    };
    let is_wrong = |rest: &str| {
        let named = rest.split(" holds; ").next().unwrap_or_default();
        let mut pods = named.split(", ");
        !pods.all(|name| waiting.truth.pods.values().any(|pod| pod.name() == name && is_unknown(pod)))
    };
    after(waiting.message, "it is not known yet which devices pod ")
        .any(is_wrong)
        .then(|| "a pod is said to hold what nobody knows, and its record is right".to_owned())
}

/// Whether no placement of a pod on an empty machine was found.
fn never_fits(machine: &Machine, pod: &Value) -> bool {
    can_be_placed(machine, pod, &Units::new()) != Some(true)
}

#[cfg(test)]
mod tests {
    use neuron_core::names::{DEVICE_MODEL, NEURON, NEURONCORE};
    use serde_json::json;
    use simulated_cluster::observer::Truth;
    use simulated_cluster::plan::NodePlan;
    use simulated_cluster::suite::NodeTruth;

    use super::*;

    /// What is wrong with a text about a pod, on a trn1.32xlarge (16 devices, 32 cores) with device 0 held and device 1 broken.
    fn wrong(spec: Value, message: &str) -> Option<String> {
        wrong_of(&json!({"metadata": {}, "spec": spec}), message)
    }

    fn wrong_of(pod: &Value, message: &str) -> Option<String> {
        let node = NodePlan { machine: "trn1.32xlarge".to_owned() };
        let (held, broken) = (Units::from([0, 1]), Units::from([2, 3]));
        let facts =
            Facts { machine: Machine::of(&node).unwrap(), held: held.clone(), broken: broken.clone() };
        let nodes = [NodeTruth { name: "n1", node: &node, held, broken }];
        let message = format!("0/1 nodes are available: 1 {message}. preemption: 0/1 nodes are available");
        judge(&[facts], &WaitingPod { truth: &Truth::default(), nodes: &nodes, pod, message: &message })
    }

    fn asking(name: &str, resource: &str, count: u32) -> Value {
        json!({"name": name, "resources": {"limits": {resource: count.to_string()}}})
    }

    #[test]
    fn reasons_are_true_or_not() {
        let devices = |count| json!({"containers": [asking("main", NEURON, count)]});
        let two = |one, other| json!({"containers": [asking("a", NEURON, one), asking("b", NEURON, other)]});
        let with_init = json!({
            "initContainers": [asking("init", NEURON, 8)], "containers": [asking("main", NEURON, 4)]
        });
        let safe = json!({
            "initContainers": [asking("init", NEURON, 4)], "containers": [asking("main", NEURON, 4)]
        });
        let unhealthy = "the pod would fit on unhealthy Neuron device";
        let hand_down = "init containers from which kubelet could hand down an unlinked set: container";
        let restricted = "the pod is restricted to device models";
        let by = "by its annotation neuron-scheduler/device-model, the node is a ";
        for (spec, text, is_true) in [
            (devices(15), format!("{unhealthy} 1 if it was healthy"), false),
            (
                json!({"containers": [asking("main", NEURONCORE, 1)]}),
                format!("{unhealthy} 1 if it was healthy"),
                true,
            ),
            (devices(1), format!("{unhealthy} 2 if it was healthy"), false),
            (devices(1), format!("{unhealthy}s 1,2 if they were healthy"), false),
            (
                two(16, 1),
                "the node is too small: Neuron devices asked 17; the node has 16 devices in all".into(),
                true,
            ),
            (
                two(16, 1),
                "the node is too small: Neuron devices asked 17; the node has 12 devices in all".into(),
                false,
            ),
            (
                two(8, 8),
                "the node is too small: Neuron devices asked 16; the node has 16 devices in all".into(),
                false,
            ),
            (
                two(16, 1),
                "the pod's containers never fit together on trn1.32xlarge: nothing is left".into(),
                true,
            ),
            (
                two(8, 8),
                "the pod's containers never fit together on trn1.32xlarge: nothing is left".into(),
                false,
            ),
            (
                two(1, 1),
                "2 containers of the pod ask for Neuron hardware, at most 1 are placed; ask".into(),
                true,
            ),
            (
                two(1, 1),
                "3 containers of the pod ask for Neuron hardware, at most 1 are placed; ask".into(),
                false,
            ),
            (
                two(1, 1),
                "2 containers of the pod ask for Neuron hardware, at most 2 are placed; ask".into(),
                false,
            ),
            (
                with_init.clone(),
                format!("{hand_down} main asks for 4 devices, init containers hand down 8; ask"),
                true,
            ),
            (
                with_init.clone(),
                format!("{hand_down} main asks for 4 devices, init containers hand down 4; ask"),
                false,
            ),
            (safe, format!("{hand_down} main asks for 4 devices, init containers hand down 4; ask"), false),
            (
                devices(1),
                "it is not known yet which devices pod default/a holds; the node takes no new".into(),
                false,
            ),
            (devices(1), format!("{restricted} Trainium2 {by}trn1.32xlarge"), false),
            (devices(1), "annotation names \"Trainium\", which is no device model; possible".into(), false),
            (devices(1), "the Neuron scheduler knows no node of this name".into(), false),
            (devices(1), "Insufficient aws.amazon.com/neuron".into(), true),
        ] {
            assert_eq!(wrong(spec, &text).is_none(), is_true, "{text}");
        }
    }

    #[test]
    fn models_are_those_of_the_annotation() {
        let restricted = "the pod is restricted to device models";
        let by = "by its annotation neuron-scheduler/device-model, the node is a ";
        let garbage = "annotation neuron-scheduler/device-model names";
        for (models, text, is_true) in [
            ("Trainium2", format!("{restricted} Trainium2 {by}trn1.32xlarge"), true),
            ("Trainium2", format!("{restricted} Trainium2 {by}inf2.48xlarge"), false),
            ("Trainium2", format!("{restricted} Trainium3 {by}trn1.32xlarge"), false),
            ("Trainium2,Trainium", format!("{restricted} Trainium2,Trainium {by}trn1.32xlarge"), false),
            (
                "Trainium2-ultra",
                format!("{garbage} \"Trainium2-ultra\", which is no device model; possible"),
                true,
            ),
            ("Trainium2", format!("{garbage} \"Trainium2\", which is no device model; possible"), false),
        ] {
            let pod = json!({
                "metadata": {"annotations": {DEVICE_MODEL: models}}, "spec": {"containers": [asking("main", NEURON, 1)]}
            });
            assert_eq!(wrong_of(&pod, &text).is_none(), is_true, "{text}");
        }
    }
}
