//! Takes over what kubelet's assignments say into the ledger, and reads the pods again where they do not explain it.
//! Called by `upkeep`.

use std::collections::BTreeMap;

use runtime::reached;

use crate::allocation::engine::Engine;
use crate::hardware::machine::Machine;
use crate::kubelet::podresources::{Assignment, PodResources};
use crate::ledger::reconcile::Real;
use crate::report::failure::Failure;

/// Compares at rest. Gives what stood in the way.
pub(super) async fn compare(
    engine: &Engine,
    pod_resources: &PodResources,
    machine: &Machine,
) -> Vec<Failure> {
    let (before, assigned) = {
        let _rest = engine.gate.rest().await;
        let before = engine.state().ledger.now();
        (before, pod_resources.assignments(&machine.topology).await)
    };
    let assigned = match assigned {
        Ok(assigned) => assigned,
        Err(error) => {
            reached("plugin: assignments not read");
            return vec![Failure::new("kubelet's assignments could not be read", None, &error)];
        }
    };
    let ignored = assigned.unknown.into_iter().map(|(pod, container, unknown)| {
        reached("plugin: assignment ignored");
        Failure {
            problem: "an assignment is ignored",
            pod: Some(pod),
            reason: format!("container {container}: {unknown}"),
            retry: false,
        }
    });
    let mut failures: Vec<Failure> = ignored.collect();
    let (assigned, mut fresh) = (assigned.known, true);
    // Planted: what kubelet said of a pod's name in an older answer is taken for what the next pod of that name has.
    #[cfg(planted)]
    let assigned = if runtime::is_planted("record-of-an-older-report") {
        engine.state().as_said_first(assigned)
    } else {
        assigned
    };
    let has_unowned = engine.state().ledger.entries().iter().any(|entry| entry.owner.is_none());
    let has_unknown_pod = real(engine, &assigned).iter().any(|real| real.uid.is_none());
    if has_unowned || has_unknown_pod {
        // A pod that the watch does not show yet must not count as gone.
        reached("plugin: live read for assignments");
        if let Err(error) = engine.pods.read_live().await {
            reached("plugin: pods not read");
            failures.push(Failure::new("the pods could not be read", None, &error));
            fresh = false;
        }
    }
    let real = real(engine, &assigned);
    let (mut state, slots) = engine.current(machine);
    state.ledger.reconcile(&slots, &real, before, fresh && engine.pods.are_known());
    failures
}

/// The assignments with their pods' UIDs, where a live pod has that name.
fn real(engine: &Engine, assigned: &[Assignment]) -> Vec<Real> {
    let pods = engine.pods.known().unwrap_or_default();
    let mut uids = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.pod.terminal) {
        uids.entry(pod.pod.full_name()).or_insert(&pod.pod.uid);
    }
    let real = |assignment: &Assignment| Real {
        uid: uids.get(&assignment.pod).map(|uid| (*uid).clone()),
        container: assignment.container.clone(),
        resource: assignment.unit,
        cores: assignment.cores,
        count: assignment.count,
    };
    assigned.iter().map(real).collect()
}
