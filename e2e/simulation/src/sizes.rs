//! How much the programs may keep in a cluster at rest: what they keep is of pods that live, with little beside it.

use std::collections::BTreeMap;
use std::sync::Arc;

use simulated_cluster::observer::Truth;
use simulated_cluster::suite::Size;

use crate::judge::recorded_of;
use crate::machine::Machine;

/// Entries that a program may have beside those of pods that live: it forgets by the dozen, not one by one.
const SLACK: usize = 80;
/// Cores of the largest machine: what a pod that is gone has had is remembered until somebody else has it.
const MOST_CORES: usize = 128;
/// UIDs of pods that are gone: as many as any node's plugin remembers, whatever lives.
const MOST_GONE: usize = 1024;
/// Events and reports about one pod at most.
const OF_ONE_POD: usize = 8;

/// What the extender keeps; nothing while it does not run. `machines` are the nodes'.
pub(crate) fn of_extender(
    sizes: Option<neuron_extender::Sizes>,
    truth: &Truth,
    machines: &BTreeMap<String, Arc<Machine>>,
) -> Vec<Size> {
    let Some(sizes) = sizes else { return Vec::new() };
    let live = truth.pods.values().filter(|pod| !pod.has_ended()).count();
    let size = |what: &str, is, at_most| Size { what: format!("extender {what}"), is, at_most };
    let mut all = vec![
        size("pods", sizes.pods, live),
        size("nodes", sizes.nodes, machines.len()),
        size("leases", sizes.leases, machines.len()),
        size("reservations", sizes.reservations, live),
        size("topologies", sizes.topologies, SLACK),
        size("unexplained", sizes.unexplained, live + SLACK),
        size("events sent", sizes.events_sent, live * OF_ONE_POD),
        size("events waiting", sizes.events_waiting, live * OF_ONE_POD),
        size("refusals logged", sizes.refusals_logged, 2 * live + SLACK),
        size("binds", sizes.binds, 0),
        size("admitted", sizes.admitted, 2 * live + SLACK),
    ];
    all.extend(cores_of_nobody(&sizes, truth, machines).map(|cores| size("cores that nobody has", cores, 0)));
    all
}

/// How many cores count as taken beyond those of pods that live; none where that is not judged. Nothing says whose they are while
/// something is reserved, nor while a pod lives whose record somebody edited: what its init containers had is still its own, and only
/// kubelet and the report say so. Nor right after an end, of which the extender may not have heard.
fn cores_of_nobody(
    sizes: &neuron_extender::Sizes,
    truth: &Truth,
    machines: &BTreeMap<String, Arc<Machine>>,
) -> Option<usize> {
    let bound = || truth.pods.values().filter(|pod| !pod.node.is_empty() && !pod.has_ended());
    let may_count_more = sizes.reservations > 0 || truth.unheard_ends().next().is_some();
    if may_count_more || bound().any(|pod| truth.edited_pods.contains(&pod.uid)) {
        return None;
    }
    let cores = bound().filter_map(|pod| {
        let machine = machines.get(&pod.node)?;
        let mut cores = recorded_of(machine, &pod.object);
        cores.extend(truth.containers_of(pod).flat_map(|(_, container)| container.units.iter().copied()));
        // A container that is to start again keeps what kubelet has given it, whatever the record says.
        let ended = truth.ended.iter().filter(|((_, uid, _), _)| *uid == pod.uid);
        cores.extend(ended.flat_map(|(_, (container, _))| container.units.iter().copied()));
        Some(cores.len())
    });
    Some(sizes.cores_taken.saturating_sub(cores.sum()))
}

/// What a node's plugin keeps; nothing while it does not run.
pub(crate) fn of_plugin(sizes: Option<neuron_device_plugin::Sizes>, node: &str, truth: &Truth) -> Vec<Size> {
    let Some(sizes) = sizes else { return Vec::new() };
    let here = truth.pods.values().filter(|pod| pod.node == node).count();
    let size = |what: &str, is, at_most| Size { what: format!("plugin {what}"), is, at_most };
    vec![
        size("checkpoint entries", sizes.entries, here * OF_ONE_POD + SLACK),
        size("answers", sizes.answers, here * OF_ONE_POD),
        size("past holders", sizes.past, here + MOST_CORES),
        size("pods", sizes.pods, here),
        size("listed pods", sizes.listed, here + SLACK),
        size("gone pods", sizes.gone, MOST_GONE),
        size("failures", sizes.failures, here + SLACK),
        size("problems", sizes.problems, SLACK),
        size("notes", sizes.notes, SLACK),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;
    use simulated_cluster::plan::NodePlan;

    use super::*;
    use crate::test_truth::{container, key, pod};

    #[test]
    fn cores_are_taken_of_pods_that_live_or_of_what_is_reserved() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"devices": [1]}}});
        let object =
            json!({"metadata": {"annotations": {"neuron-scheduler/allocation": record.to_string()}}});
        let pod = pod("p", "u", "Running", object);
        let truth = Truth { pods: [("u".to_owned(), pod)].into(), ..Truth::default() };
        let machines = BTreeMap::from([("n1".to_owned(), machine)]);
        let edited = Truth { edited_pods: ["u".to_owned()].into(), ..truth.clone() };
        let of_nobody = |truth: &Truth, cores_taken, reservations| {
            let sizes = neuron_extender::Sizes { cores_taken, reservations, ..Default::default() };
            cores_of_nobody(&sizes, truth, &machines)
        };
        assert_eq!(
            [of_nobody(&truth, 2, 0), of_nobody(&truth, 6, 0), of_nobody(&truth, 6, 1)],
            [Some(0), Some(4), None]
        );
        assert_eq!(of_nobody(&edited, 6, 0), None);
        let starts_again = {
            let container = container("p", "u", &BTreeMap::new(), [4, 5].into());
            Truth { ended: [(key("u", "main"), (container, Duration::ZERO))].into(), ..truth.clone() }
        };
        assert_eq!([of_nobody(&starts_again, 4, 0), of_nobody(&starts_again, 6, 0)], [Some(0), Some(2)]);
        let ended = |now| {
            let mut truth = Truth { now: Duration::from_secs(now), ..truth.clone() };
            truth.pods.values_mut().for_each(|pod| pod.phase = "Failed".to_owned());
            of_nobody(&truth, 2, 0)
        };
        assert_eq!([ended(1), ended(60)], [None, Some(2)]);
    }
}
