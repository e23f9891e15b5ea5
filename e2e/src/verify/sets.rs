//! Whether pods get what they ask for: what their records say, what their containers see, and that no two share any of it.

use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use neuron_core::ids::DeviceSet;
use neuron_core::names::Resource;
use neuron_core::record::{Allocation, Recorded};
use neuron_core::topology::Topology;
use neuron_e2e_engine::invariants::record;
use neuron_e2e_engine::outcome::PodOutcome;

use super::check::{Check, Checks};
use super::pods::{MAIN, Pods};
use super::requests::Plan;
use crate::report::sets::set;
use crate::view::View;

/// A pod of which it was seen what it got.
struct Got {
    name: String,
    node: String,
    allocation: Arc<Allocation>,
}

/// Makes the pods that fit, largest first, and checks each; then that they share nothing.
pub(super) async fn check(plan: &Plan, pods: &Pods<'_>, view: &View, checks: &mut Checks<impl Fn(&Check)>) {
    let mut running = Vec::new();
    let requests = [
        (plan.linked.is_some(), "linked", "linked devices", Resource::Device, plan.linked.unwrap_or(2)),
        (plan.device, "device", "device", Resource::Device, 1),
        (plan.core, "core", "core", Resource::Core, 1),
    ];
    for (fits, word, noun, resource, count) in requests {
        let check = format!("{count} {noun}");
        if !fits {
            checks.not_applicable(check, format!("no node that was checked has {count} free"));
            continue;
        }
        let got = one(word, resource, count, pods, view).await;
        let seen = got.as_ref().map(said).map_err(|error| anyhow::anyhow!("{error:#}"));
        checks.add(check, seen);
        if let Ok(got) = got {
            if !plan.together
                && let Err(error) = pods.delete(&got.name).await
            {
                checks.add("room for the next pod", Err(error));
            }
            running.push(got);
        }
    }
    match (plan.together, &running[..]) {
        (true, [_, _, ..]) => checks.add("nothing is shared", exclusive(&running, view)),
        (true, _) => checks.not_applicable("nothing is shared", "no two pods ran"),
        (false, _) => checks.not_applicable("nothing is shared", "too little is free for two pods at a time"),
    }
}

/// A pod that runs, and whose container sees what its record says.
async fn one(
    word: &str,
    resource: Resource,
    count: u32,
    pods: &Pods<'_>,
    view: &View,
) -> anyhow::Result<Got> {
    let name = pods.create(word, resource, count).await?;
    let what = format!("pod {name} to be placed");
    let node = pods.look_until(&name, &what, |seen| seen.pod_node().map(str::to_owned)).await?;
    // The report of a plugin that corrects a record comes after the pod.
    let (wait, what) = (pods.wait(), format!("pod {name} to run, with a record that is right"));
    let settled = wait.found(&what, async || {
        let outcome = pods.outcome(&name).await?;
        if let Some(why) = &outcome.failure {
            // Nothing comes after it.
            return Ok(Some(Err(anyhow::anyhow!("pod {name} failed on {node}: {why}"))));
        }
        ensure!(outcome.is_running(), "it is {}", outcome.phase);
        ensure!(outcome.containers.contains_key(MAIN), "its container has said nothing of what it got");
        let unlike = record::mismatches_of(&name, &outcome);
        ensure!(unlike.is_empty(), "{}", unlike.join("; "));
        Ok(Some(Ok(outcome)))
    });
    let outcome = settled.await??;
    let topology = topology(view, &node)
        .with_context(|| format!("pod {name} is on {node}, of which no shape is known"))?;
    let allocation = as_requested(&outcome, resource, count, &topology)?;
    Ok(Got { name, node, allocation })
}

fn topology(view: &View, node: &str) -> Option<std::sync::Arc<Topology>> {
    let node = view.nodes.iter().find(|view| view.name == node)?;
    Some(node.hardware.as_ref()?.topology.clone())
}

/// The record, if it has a candidate set of as much as was asked for and the container sees the devices of it.
fn as_requested(
    outcome: &PodOutcome,
    resource: Resource,
    count: u32,
    topology: &Topology,
) -> anyhow::Result<Arc<Allocation>> {
    let Ok(Some(Recorded::Ours(allocation))) = Allocation::parse(&outcome.annotations) else {
        bail!("it runs without a record; did scheduler and extender bind it?");
    };
    let (devices, cores) = (allocation.union_devices(), allocation.union_cores());
    let (had, hardware) = match resource {
        Resource::Device => (devices.len(), topology.cores_of(devices)),
        Resource::Core => (cores.len(), cores),
    };
    ensure!(had == count, "it asked for {count} and has {had}");
    let expected = devices.union(topology.devices_of(cores));
    // An extender may be told to allow every linked set.
    let is_linked = topology.is_candidate_set(resource, hardware) || topology.is_connected(expected);
    ensure!(is_linked, "it has {}, which are not linked", set_of(&allocation));
    let seen = outcome.containers.get(MAIN).map(|report| &report.devices[..]).unwrap_or_default();
    let seen: DeviceSet =
        seen.iter().filter_map(|path| path.strip_prefix("/dev/neuron")?.parse::<u8>().ok()).collect();
    ensure!(
        seen == expected,
        "its container sees the device nodes {{{seen}}}, its record needs {{{expected}}}"
    );
    Ok(allocation)
}

/// Checks that no core is held by two of the pods, which run at one time.
fn exclusive(running: &[Got], view: &View) -> anyhow::Result<String> {
    for (place, one) in running.iter().enumerate() {
        let Some(topology) = topology(view, &one.node) else { bail!("node {} is not known", one.node) };
        for other in running.iter().skip(place + 1).filter(|other| other.node == one.node) {
            let both = one.allocation.hardware(&topology).intersection(other.allocation.hardware(&topology));
            ensure!(
                both.is_empty(),
                "pods {} and {} both have cores {both} of {}",
                one.name,
                other.name,
                one.node
            );
        }
    }
    Ok(format!("{} pods ran at one time, each on cores of its own", running.len()))
}

fn said(got: &Got) -> String {
    format!("{} of {}, in the record and in the container", set_of(&got.allocation), got.node)
}

fn set_of(allocation: &Allocation) -> String {
    allocation.containers.values().map(set).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use neuron_core::catalog::Catalog;
    use neuron_core::record::ContainerAllocation;
    use neuron_core::topology::Policy;
    use neuron_workload::Report;

    use super::*;

    fn inf2() -> Topology {
        let model = Catalog::embedded().find("inf2.24xlarge").unwrap();
        Topology::named("inf2.24xlarge", model, 1, Policy::Documented).unwrap()
    }

    /// A running pod with these devices in its record, that sees these device nodes.
    fn outcome(recorded: &str, seen: &[&str]) -> PodOutcome {
        let sets =
            ContainerAllocation { devices: recorded.parse().unwrap(), ..ContainerAllocation::default() };
        let containers = [(MAIN.into(), sets)].into_iter().collect();
        let allocation = Allocation { node: "n1".into(), lnc: 1, containers };
        let report = Report::of([].into(), seen.iter().map(|path| (*path).to_owned()));
        PodOutcome {
            phase: "Running".into(),
            node: Some("n1".into()),
            annotations: allocation.annotations(true, "0"),
            containers: [(MAIN.to_owned(), report)].into(),
            ..PodOutcome::default()
        }
    }

    fn judged(recorded: &str, seen: &[&str], count: u32) -> Result<String, String> {
        let judged = as_requested(&outcome(recorded, seen), Resource::Device, count, &inf2());
        judged.map(|allocation| set_of(&allocation)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_pod_must_have_and_see_linked_devices_as_many_as_it_asked_for() {
        assert_eq!(judged("2,3", &["/dev/neuron2", "/dev/neuron3"], 2).unwrap(), "devices 2-3");
        assert_eq!(judged("2", &["/dev/neuron2"], 2).unwrap_err(), "it asked for 2 and has 1");
        let unlinked = judged("0,5", &["/dev/neuron0", "/dev/neuron5"], 2).unwrap_err();
        assert_eq!(unlinked, "it has devices 0,5, which are not linked");
        let unseen = judged("2,3", &["/dev/neuron2"], 2).unwrap_err();
        assert_eq!(unseen, "its container sees the device nodes {2}, its record needs {2,3}");
    }

    #[test]
    fn a_pod_without_a_record_was_bound_by_somebody_else() {
        let bare = PodOutcome { annotations: [].into(), ..outcome("2", &["/dev/neuron2"]) };
        let error = as_requested(&bare, Resource::Device, 1, &inf2()).unwrap_err().to_string();
        assert!(error.starts_with("it runs without a record"), "{error}");
    }
}
