//! Writes corrections to pods, and tells of them. Called by `upkeep`; what to write is decided in `correction`.

use std::collections::BTreeMap;
use std::sync::Arc;

use runtime::reached;

use crate::allocation::engine::Engine;
use crate::hardware::machine::Machine;
use crate::ledger::slot::{NodePod, Slot};
use crate::pods::PodsError;
use crate::report::correction::correction;
use crate::report::failure::Failure;

/// Attempts at writing one record when its pod changes meanwhile.
const ATTEMPTS: usize = 4;

/// Corrects the record of every live pod that got something else. Gives what could not be corrected.
pub(super) async fn correct(engine: &Engine, node: &str, machine: &Machine) -> Vec<Failure> {
    let mut failures = Vec::new();
    for uid in wrong(engine, node, machine) {
        failures.extend(correct_pod(engine, node, machine, &uid).await.err());
    }
    failures
}

/// The UIDs of the live pods whose records are wrong, told from one look at the ledger for all of them. Where all were right, they are
/// compared again only once the slots or the checkpoint have changed.
fn wrong(engine: &Engine, node: &str, machine: &Machine) -> Vec<String> {
    let (mut state, slots) = engine.current(machine);
    let version = state.ledger.checkpoint_version();
    let is_same = |(right, at): &(Arc<[Slot]>, u64)| Arc::ptr_eq(right, &slots) && *at == version;
    if state.right.as_ref().is_some_and(is_same) {
        return Vec::new();
    }
    let pods = engine.pods.living().unwrap_or_default();
    let own: BTreeMap<&str, &[Slot]> = slots
        .chunk_by(|one, other| one.uid == other.uid)
        .filter_map(|own| Some((own.first()?.uid.as_str(), own)))
        .collect();
    let is_wrong = |pod: &&Arc<NodePod>| {
        let own = own.get(&*pod.pod.uid).copied().unwrap_or_default();
        correction(node, &machine.topology, &state.ledger, pod, &own.iter().collect::<Vec<_>>()).is_some()
    };
    let wrong: Vec<String> = pods.iter().filter(is_wrong).map(|pod| pod.pod.uid.to_string()).collect();
    state.right = wrong.is_empty().then(|| (Arc::clone(&slots), version));
    wrong
}

async fn correct_pod(engine: &Engine, node: &str, machine: &Machine, uid: &str) -> Result<(), Failure> {
    const WHAT: &str = "the record could not be corrected";
    let mut last = None;
    for _ in 0..ATTEMPTS {
        let pods = engine.pods.living().unwrap_or_default();
        let Some(pod) = pods.iter().find(|pod| *pod.pod.uid == *uid) else { return Ok(()) };
        let correction = {
            let (state, slots) = engine.current(machine);
            let own: Vec<&Slot> = slots.iter().filter(|slot| slot.uid == uid).collect();
            correction(node, &machine.topology, &state.ledger, pod, &own)
        };
        let Some(correction) = correction else { return Ok(()) };
        let name = pod.pod.full_name.to_string();
        match engine.pods.annotate(pod, &correction.annotations).await {
            Ok(()) => {
                if let Some(note) = correction.note {
                    reached("plugin: record corrected");
                    engine.metrics.correction(true);
                    tracing::info!(node, pod = name, reason = note, "record corrected");
                    let (events, pod) = (engine.events.clone(), pod.pod.clone());
                    drop(engine.system.spawn(async move { events.corrected(&pod, note).await }));
                }
                return Ok(());
            }
            // The pod has changed or is gone: look at it as it is now.
            Err(PodsError::Api(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                reached("plugin: record changed meanwhile");
                let read = engine.pods.read_live().await;
                read.map_err(|error| Failure::new("the pods could not be read", None, &error))?;
                last = Some(Failure::new(WHAT, Some(&name), &status));
            }
            Err(error) => {
                reached("plugin: record not corrected");
                engine.metrics.correction(false);
                return Err(Failure::new(WHAT, Some(&name), &error));
            }
        }
    }
    engine.metrics.correction(false);
    last.map_or(Ok(()), Err)
}
