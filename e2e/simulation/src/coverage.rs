//! Nothing sleeps unseen: which faults, refusals, recovery branches and judgements a simulation should reach, and which of them it
//! did not.

use std::collections::BTreeMap;

use simulated_cluster::suite::Suite;
use simulated_cluster::{Summary, judged_too_seldom};

use crate::Neuron;
use crate::hardware::{DRIVER_GONE, DRIVER_GONE_NODES_STAY, LNC_EDITED, OF_DEVICES, PROCESSES_HIDDEN};

/// Faults and branches that hundreds of seeds need not reach, each with the reason; some of them plans do.
const OUT_OF_REACH: &[(&str, &str)] = &[
    (
        "cluster: a binding met a pod that is being deleted",
        "a pod that is bound to no node is gone as soon as it is deleted",
    ),
    ("cluster: a plugin was refused, its path is held", "the plugin's sockets have ever new names"),
    (
        "cluster: a watch fell behind what is kept",
        "the API server hands on at once what a slow link then delays",
    ),
    (
        "cluster: admission refused, the resource is forgotten",
        "a node whose plugin has been gone for so long offers nothing that a pod could be bound for",
    ),
    (
        "cluster: kubelet forgot the ids of an open Allocate",
        "plans do: a pod has to end and a monitor to ask while one Allocate is open",
    ),
    ("cluster: kubelet lost sight of a plugin", "the plugin's sockets have ever new names"),
    ("cluster: kubelet panicked", "it would be a violation: the plugin never takes back an id"),
    ("cluster: pods ended for another one", "all pods of seeds have one priority"),
    ("cluster: the end of a plugin was not noticed", "the plugin's sockets have ever new names"),
    ("extender: TLS files not usable", "the simulated extender serves HTTP"),
    ("extender: TLS files reloaded", "the simulated extender serves HTTP"),
    ("extender: TLS folder not watched", "the simulated extender serves HTTP"),
    ("extender: TLS handshake failed", "the simulated extender serves HTTP"),
    ("extender: TLS handshake too slow", "the simulated extender serves HTTP"),
    ("extender: a call panicked", "it would be a mistake in the extender"),
    (
        "extender: bind before the first lists",
        "a bind follows its filter within milliseconds, and an extender starts later",
    ),
    ("extender: bind panicked", "it would be a violation: the extender has no such mistake"),
    ("extender: bind broke off", "an extender that ends waits longer for its binds than they may take"),
    (
        "extender: binds cut off at the end",
        "an extender that ends waits longer for its binds than they may take",
    ),
    ("extender: body too long", "only kube-scheduler calls, about few nodes"),
    ("extender: body too slow", "a call about so few nodes arrives whole or not at all"),
    ("extender: call not received", "a call about so few nodes arrives whole or not at all"),
    ("extender: call not understood", "only kube-scheduler calls, and it knows how"),
    ("extender: call without a certificate", "the simulated extender serves HTTP"),
    ("extender: event held back by the rate", "fewer pods wait than events are sent at once"),
    ("extender: filter of a pod with a claim refused", "pods have no claims"),
    ("extender: filter of a request that cannot be read", "pods ask for whole numbers"),
    (
        "extender: node changed while a place was searched for",
        "the simulation has one thread, and a bind lets nobody have a turn between its search and its reservation",
    ),
    ("extender: leader's label not put", "the extenders' pods are no objects of the simulated cluster"),
    ("extender: leader's label not removed", "the extenders' pods are no objects of the simulated cluster"),
    (
        "extender: leader's label on a foreign pod",
        "the extenders' pods are no objects of the simulated cluster",
    ),
    (
        "extender: leader's label removed from another pod",
        "the extenders' pods are no objects of the simulated cluster",
    ),
    ("extender: lease gone", "nobody deletes the extenders' Lease in the simulated cluster"),
    (
        "extender: oldest admission forgotten",
        "not so many pods are admitted and not bound within ten minutes",
    ),
    ("extender: no place for metrics", "nobody asks for metrics"),
    ("extender: no room for a body", "only kube-scheduler calls, about few nodes"),
    ("extender: no room for an answer", "only kube-scheduler calls, about few nodes"),
    ("extender: note shortened", "what is said of so few nodes is short"),
    ("extender: pod with a claim refused at its bind", "pods have no claims"),
    ("extender: preemption would not help on a node", "all pods of seeds have one priority"),
    ("extender: refused, the search was given up", "pods that fit have five containers at most"),
    ("extender: too many binds under way", "only kube-scheduler calls, and binds few pods at once"),
    ("extender: victims added to those of kube-scheduler", "all pods of seeds have one priority"),
    ("plugin: LNC held", "seeds edit the LNC of types that have one alone, plans can do more"),
    ("plugin: already connected", "the plugin's sockets have ever new names"),
    ("plugin: device file found by name", "the fake machines have the layout of a driver that is known"),
    ("plugin: device names not written", "the simulated plugins hand out paths"),
    ("plugin: device names written again", "the simulated plugins hand out paths"),
    ("plugin: devices came late", "every type is in the catalog"),
    ("plugin: devices still coming", "every type is in the catalog"),
    ("plugin: entry ignored", "a machine is replaced by one of its own kind, whose ids are the same"),
    ("plugin: lock file not seen", "no fault touches the plugin's own files but to remove them"),
    ("plugin: no sign of life", "no fault touches the plugin's own files"),
    (
        "plugin: numbers of the host where it is open who asks",
        "the simulated plugins give the host's numbers always",
    ),
    ("plugin: open files not read", "a simulated plugin may look into every process"),
    ("plugin: part ended early", "only a mistake in the plugin would end one"),
    ("plugin: refused, not ready", "it registers once it knows its devices"),
    ("plugin: refused, unknown id", "a machine is replaced by one of its own kind, whose ids are the same"),
    (
        "plugin: resources moved apart",
        "no fault touches the plugin's own files, and no call is open for half a minute",
    ),
    ("plugin: runtime without device names", "the simulated plugins hand out paths"),
    ("plugin: socket not made", "no fault touches the plugin's own files"),
    ("plugin: socket not removed", "no fault touches the plugin's own files"),
    ("plugin: socket not seen", "no fault touches the plugin's own files but to remove them"),
    ("fault: checkpoint garbled", "plans can, seeds do not yet: texts are not judged rightly then"),
    ("runtime: page too long", "a cluster of so few pods has no page of 32 MiB"),
];

/// Faults and branches that hundreds of seeds reach now and then, each with what has to come together for it.
const RARE: &[(&str, &str)] = &[
    (
        "cluster: a checkpoint could not be read",
        "a kubelet starts within the minute in which reads of its checkpoint fail",
    ),
    (
        "cluster: a plugin ended and another remained",
        "two plugins are alive at once, and kubelet's stream to the older one ends first",
    ),
    (
        "cluster: a status was written again that another one had overwritten",
        "a write of kubelet that it has given up is carried out after its next one, and says another phase",
    ),
    (
        "cluster: a watch began with an older state",
        "a link that lags is cut and heals between a list and its watch",
    ),
    (
        "cluster: admission refused, the plugin has stopped",
        "the plugin ends between kubelet's look at it and its call",
    ),
    (
        "cluster: admission refused, its devices are unhealthy",
        "kubelet admits a pod again, or starts a container again, whose devices have broken since, while others are healthy",
    ),
    (
        "cluster: admission refused, too few devices are free",
        "kubelet holds what the extender counts as free, and as much as the pod asks for was free when it was bound",
    ),
    (
        "cluster: devices of a plugin long gone are allocatable",
        "a plugin is away for more than five minutes, and the one status that says so is not written; a test has a plan for it",
    ),
    (
        "plugin: checkpoint not read in time",
        "a call whose time is nearly over looks at a checkpoint that hangs",
    ),
    (
        "plugin: checkpoint of before believed over a record",
        "a record is edited while an older state of kubelet's checkpoint hides its pod",
    ),
    (
        "extender: bind that filter has not admitted",
        "the node is deleted or made anew between a filter and its bind, milliseconds apart, and the leader is older than a minute",
    ),
    ("extender: bind while stopping", "an extender that is asked to end has mostly no bind to wait for"),
    (
        "extender: pods listed for a pod that cannot be read",
        "the pod of an unclear Binding would have to be unreadable a minute later, and a minute after that",
    ),
    (
        "extender: devices shared",
        "a plugin that does not wait for processes gives what a pod deleted by force still has, and both are seen",
    ),
    (
        "extender: pod bound without a record",
        "a record is edited between a bind and its repetition, seconds apart",
    ),
    (
        "extender: node of a bind unknown",
        "the node is deleted between a filter and its bind, milliseconds apart",
    ),
    (
        "extender: pod of a reservation looked for",
        "a pod is bound and deleted between the beginning of a list and its reading",
    ),
    (
        "extender: lease kept for an unclear binding",
        "an extender is asked to end within a minute after a Binding of which it is not known what became of it",
    ),
    ("extender: refusals forgotten", "an extender that is not killed for long refuses very many pods"),
    (
        "extender: reservation replaced",
        "devices fail, or another leader gives them away, between an unclear Binding and the next bind of its pod to the same node",
    ),
    (
        "plugin: container runs on with what it had before",
        "kubelet restarts on an old list of pods, and asks anew for one whose container gets its grace",
    ),
    (
        "plugin: checkpoint waited for at the start",
        "the plugin starts while its node's checkpoint cannot be read",
    ),
    ("plugin: correction put off for a change of the machine", "a device fails amid the write of a record"),
    ("plugin: own server silent", "the plugin is frozen between its own call and the answer"),
    ("plugin: timer of a device file late", "the plugin is frozen amid a read that takes no time"),
];

/// What was reached although it is said to be out of reach, each with what is said: the excuse is no longer true.
pub fn reached_after_all(summaries: &[Summary]) -> Vec<String> {
    let reached = reached(summaries);
    let is_reached = |name: &str| reached.get(name).is_some_and(|count| *count > 0);
    let excused = OUT_OF_REACH.iter().filter(|(name, _)| is_reached(name));
    excused.map(|(name, why)| format!("{name} (\"{why}\")")).collect()
}

/// Branches that the cluster has in one Kubernetes version alone.
const OF_ONE_VERSION: &[(&str, &str)] = &[
    ("cluster: the end of an older plugin dropped the newest", "1.34"),
    ("plugin: not allocatable", "1.34"),
];

/// How often everything was reached that should be, by name.
pub fn reached(summaries: &[Summary]) -> BTreeMap<String, u64> {
    let mut reached: BTreeMap<String, u64> = all().map(|name| (name, 0)).collect();
    for summary in summaries {
        let faults = summary.faults.iter().map(|(name, count)| (format!("fault: {name}"), *count));
        let branches = summary.branches.iter().map(|(name, count)| (name.clone(), *count));
        let judged = simulated_cluster::JUDGEMENTS
            .iter()
            .map(|name| (judgement(name), summary.judged.get(*name).copied().unwrap_or_default()));
        for (name, count) in branches.chain(faults).chain(judged) {
            *reached.entry(name).or_default() += count;
        }
    }
    reached
}

/// What was never reached and should have been.
pub fn unreached(summaries: &[Summary]) -> Vec<String> {
    let has_run = |version: &str| summaries.iter().any(|summary| summary.kubernetes == version);
    let is_reachable = |name: &String| {
        let of_another = OF_ONE_VERSION.iter().any(|(other, version)| other == name && !has_run(version));
        !of_another && OUT_OF_REACH.iter().chain(RARE).all(|(other, _)| other != name)
    };
    reached(summaries)
        .into_iter()
        .filter(|(_, count)| *count == 0)
        .map(|(name, _)| name)
        .filter(is_reachable)
        .collect()
}

/// What was judged too seldom in all of them together.
pub fn too_seldom(summaries: &[Summary]) -> Vec<String> {
    let mut judged = BTreeMap::new();
    for (name, count) in summaries.iter().flat_map(|summary| &summary.judged) {
        *judged.entry(name.clone()).or_default() += count;
    }
    judged_too_seldom(&judged)
}

fn all() -> impl Iterator<Item = String> {
    let branches = [
        neuron_extender::BRANCHES,
        neuron_device_plugin::BRANCHES,
        fake_cluster::BRANCHES,
        runtime::BRANCHES,
    ];
    let judged = simulated_cluster::JUDGEMENTS.iter().map(|name| judgement(name));
    branches.into_iter().flatten().map(|name| (*name).to_owned()).chain(faults()).chain(judged)
}

fn judgement(name: &str) -> String {
    format!("judged: {name}")
}

/// Every kind of fault.
fn faults() -> impl Iterator<Item = String> {
    let suite = Neuron::default();
    let programs: Vec<&str> = suite.programs().iter().map(|program| program.name).collect();
    let parts = programs.iter().copied().chain(["kubelet", "scheduler", "controllers"]);
    let of_parts =
        parts.flat_map(|part| [format!("kill {part}"), format!("freeze {part}"), format!("away {part}")]);
    let for_good = ["away extender for good".to_owned()];
    let second = programs.iter().flat_map(|program| [format!("second {program}"), format!("stop {program}")]);
    let of_devices = OF_DEVICES.map(|fault| format!("device {fault}"));
    let of_machines = [DRIVER_GONE, DRIVER_GONE_NODES_STAY, PROCESSES_HIDDEN, LNC_EDITED];
    let of_devices = of_devices.into_iter().chain(of_machines.map(|fault| format!("machine: {fault}")));
    let edits = suite.edits().into_iter().chain(suite.pod_edits()).map(|edit| format!("edit {edit}"));
    let others = simulated_cluster::plan::FAULTS.iter().map(|fault| (*fault).to_owned());
    let all: Vec<String> =
        of_parts.chain(for_good).chain(second).chain(of_devices).chain(edits).chain(others).collect();
    all.into_iter().map(|name| format!("fault: {name}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use std::time::Duration;

    use simulated_cluster::Seeded;
    use simulated_cluster::profile::Profile;

    use super::*;

    #[test]
    fn what_is_out_of_reach_is_a_branch_and_says_why() {
        let all: Vec<String> = all().collect();
        for (name, why) in OUT_OF_REACH.iter().chain(RARE) {
            assert!(all.iter().any(|known| known == name), "{name} is no branch");
            assert!(!why.is_empty(), "{name}");
        }
        for (name, _) in OF_ONE_VERSION {
            assert!(all.iter().any(|known| known == name), "{name} is no branch");
        }
    }

    #[test]
    fn an_excuse_that_is_no_longer_true_is_told() {
        let (name, why) = OUT_OF_REACH[0];
        let with = |count| {
            let branches = BTreeMap::from([(name.to_owned(), count)]);
            reached_after_all(&[Summary { branches, ..Summary::default() }])
        };
        assert_eq!((with(0), with(1)), (Vec::new(), vec![format!("{name} (\"{why}\")")]));
    }

    #[test]
    fn every_fault_that_seeds_draw_is_one_of_the_list() {
        let all: BTreeSet<String> = all().collect();
        let suite: Arc<dyn Suite> = Arc::new(Neuron::default());
        let day = Duration::from_secs(86_400);
        for seed in 0..4 {
            let nodes = ["trn1.32xlarge", "trn2.48xlarge"];
            let mut hours = Seeded::new(seed, Profile::Chaos, nodes, day).source(&suite);
            while let Some(events) = hours.next_hour() {
                for fault in events.iter().filter_map(|event| event.what.fault()) {
                    assert!(all.contains(&format!("fault: {fault}")), "{fault}");
                }
            }
        }
    }

    #[test]
    fn a_branch_of_one_version_is_missed_by_runs_of_that_version_alone() {
        for (name, version) in OF_ONE_VERSION {
            let misses = |kubernetes: &str| {
                let summary = Summary { kubernetes: kubernetes.to_owned(), ..Summary::default() };
                unreached(&[summary]).iter().any(|missed| missed == name)
            };
            assert!(misses(version), "{name}");
            assert!(!misses("another"), "{name}");
        }
    }

    #[test]
    fn what_no_run_reached_is_told() {
        let mut summary = Summary::default();
        let unreached_by_none = unreached(&[summary.clone()]);
        assert!(unreached_by_none.contains(&"fault: kill extender".to_owned()));
        assert!(unreached_by_none.contains(&"judged: refusals".to_owned()));
        summary.faults.insert("kill extender".to_owned(), 1);
        summary.judged.insert("refusals".to_owned(), 1);
        assert_eq!(unreached(&[summary]).len(), unreached_by_none.len() - 2);
    }
}
