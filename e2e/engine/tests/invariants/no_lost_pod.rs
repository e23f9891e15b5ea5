//! No lost pod, after a fault.

use neuron_e2e_engine::invariants::Invariant;
use rstest::rstest;

use super::world::{World, violates};

#[rstest]
#[case::one_that_is_gone(|world: &mut World| drop(world.outcome.pods.remove("devices")), "pod devices is lost")]
#[case::one_of_a_step_inside_a_step(|world: &mut World| drop(world.outcome.pods.remove("p3")), "pod p3 is lost")]
#[case::one_that_waits(
    |world: &mut World| {
        let pod = world.pod("plain");
        (pod.phase, pod.failed_scheduling) = ("Pending".into(), Some("0/1 nodes are available".into()));
    },
    "pod plain is Pending: 0/1 nodes are available"
)]
#[case::one_that_failed_with_words_of_nobody(
    |world: &mut World| {
        let pod = world.pod("p2");
        (pod.phase, pod.failure) = ("Failed".into(), Some("OOMKilled".into()));
    },
    "pod p2 is Failed: OOMKilled"
)]
#[case::one_created_when_everything_was_back(
    |world: &mut World| {
        let pod = world.pod("p8");
        (pod.phase, pod.failure) = ("Failed".into(), Some("kubelet is away".into()));
    },
    "pod p8 is Failed: kubelet is away"
)]
fn a_pod_that_did_not_survive_is_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::NoLostPod, text);
}
