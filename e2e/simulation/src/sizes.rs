//! How much the programs may keep in a cluster at rest: what they keep is of pods that live, with little beside it.

use simulated_cluster::observer::Truth;
use simulated_cluster::suite::Size;

/// Entries that a program may have beside those of pods that live: it forgets by the dozen, not one by one.
const SLACK: usize = 80;
/// Cores of the largest machine: what a pod that is gone has had is remembered until somebody else has it.
const MOST_CORES: usize = 128;
/// Events and reports about one pod at most.
const OF_ONE_POD: usize = 8;

/// What the extender keeps; nothing while it does not run.
pub(crate) fn of_extender(sizes: Option<neuron_extender::Sizes>, truth: &Truth) -> Vec<Size> {
    let Some(sizes) = sizes else { return Vec::new() };
    let live = truth.pods.values().filter(|pod| !pod.has_ended()).count();
    let size = |what: &str, is, at_most| Size { what: format!("extender {what}"), is, at_most };
    vec![
        size("pods", sizes.pods, live),
        size("reservations", sizes.reservations, live),
        size("topologies", sizes.topologies, SLACK),
        size("unexplained", sizes.unexplained, live + SLACK),
        size("events sent", sizes.events_sent, live * OF_ONE_POD),
        size("events waiting", sizes.events_waiting, live * OF_ONE_POD),
        size("refusals logged", sizes.refusals_logged, 2 * live + SLACK),
        size("binds", sizes.binds, 0),
    ]
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
        size("failures", sizes.failures, here + SLACK),
        size("problems", sizes.problems, SLACK),
        size("notes", sizes.notes, SLACK),
    ]
}
