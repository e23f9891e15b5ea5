//! What init containers hand down, and the requests that kubelet could answer with an unlinked set.

use super::support::Role::{App, Init, Sidecar};
use super::support::{Role, cores, given, node, node_at, node_under, pod, refused};
use neuron_core::placement::place;
use neuron_core::topology::Policy;
use rstest::rstest;

#[rstest]
#[case::init_alone("inf2.48xlarge", &[(Init, 4, 0)], "main: devices 0,1,2,3")]
#[case::same_count("inf2.48xlarge", &[(Init, 4, 0), (App, 4, 0)], "c0: devices 0,1,2,3; c1: devices 0,1,2,3")]
#[case::app_needs_more("inf2.48xlarge", &[(Init, 2, 0), (App, 4, 0)], "c0: devices 0,1; c1: devices 0,1,2,3")]
#[case::inits_grow(
    "inf2.48xlarge", &[(Init, 1, 0), (Init, 3, 0), (App, 3, 0)],
    "c0: devices 0; c1: devices 0,1,2; c2: devices 0,1,2"
)]
#[case::later_init_gets_any_of_the_first(
    "inf2.48xlarge", &[(Init, 3, 0), (Init, 1, 0), (App, 3, 0)],
    "c0: devices 0,1,2; c1: devices 0*; c2: devices 0,1,2"
)]
#[case::any_one_of_two(
    "inf2.48xlarge", &[(Init, 2, 0), (App, 1, 0), (App, 1, 0)], "c0: devices 0,1; c1: devices 0*; c2: devices 1*"
)]
#[case::any_one_and_a_rest_unused("inf2.48xlarge", &[(Init, 4, 0), (App, 1, 0)], "c0: devices 0,1,2,3; c1: devices 0*")]
#[case::apps_hand_nothing_down(
    "inf2.48xlarge", &[(Init, 2, 0), (App, 2, 0), (App, 2, 0)], "c0: devices 0,1; c1: devices 0,1; c2: devices 2,3"
)]
#[case::sidecar_keeps(
    "inf2.48xlarge", &[(Sidecar, 4, 0), (App, 2, 0), (App, 2, 0)],
    "c0: devices 0,1,2,3; c1: devices 4,5; c2: devices 6,7"
)]
#[case::sidecar_takes_over_from_init(
    "inf2.48xlarge", &[(Init, 2, 0), (Sidecar, 2, 0), (App, 2, 0)],
    "c0: devices 0,1; c1: devices 0,1; c2: devices 2,3"
)]
#[case::sidecar_before_init(
    "inf2.48xlarge", &[(Sidecar, 1, 0), (Init, 2, 0), (App, 2, 0)],
    "c0: devices 0; c1: devices 1,2; c2: devices 1,2"
)]
#[case::cores_any_one("inf2.48xlarge", &[(Init, 0, 2), (App, 0, 1), (App, 0, 1)], "c0: cores 0,1; c1: cores 0*; c2: cores 1*")]
#[case::cores_grow("inf1.6xlarge", &[(Init, 0, 2), (App, 0, 9)], "c0: cores 0,1; c1: cores 0,1,2,3,4,5,6,7,8")]
#[case::resources_hand_down_apart(
    "inf2.48xlarge", &[(Init, 1, 2), (App, 0, 2), (App, 1, 0)],
    "c0: devices 0 cores 2,3; c1: cores 2,3; c2: devices 0"
)]
#[case::other_resource_is_fresh(
    "inf2.48xlarge", &[(Init, 1, 0), (App, 0, 2)], "c0: devices 0; c1: cores 2,3"
)]
#[case::torus_row_within_half(
    "trn1.32xlarge", &[(Init, 4, 0), (App, 8, 0)], "c0: devices 0,1,2,3; c1: devices 0,1,2,3,4,5,6,7"
)]
fn what_containers_get_after_init_containers(
    #[case] instance_type: &str,
    #[case] requests: &[(Role, u32, u32)],
    #[case] expected: &str,
) {
    assert_eq!(given(&pod(requests), &node(instance_type)), expected);
}

#[rstest]
#[case::two_plus_two_of_four(
    "inf2.48xlarge", &[(Init, 4, 0), (App, 2, 0), (App, 2, 0)],
    "container c1 asks for 2 devices, init containers hand down 4"
)]
#[case::later_init_takes_two_of_three(
    "inf2.48xlarge", &[(Init, 3, 0), (Init, 2, 0)], "container c1 asks for 2 devices, init containers hand down 3"
)]
#[case::sidecar_takes_two_of_three(
    "inf2.48xlarge", &[(Init, 3, 0), (Sidecar, 2, 0)], "container c1 asks for 2 devices, init containers hand down 3"
)]
#[case::the_rest_of_three_may_have_a_gap(
    "inf2.48xlarge", &[(Init, 3, 0), (App, 1, 0), (App, 2, 0)],
    "container c2 asks for 2 devices, init containers hand down 2"
)]
#[case::fresh_ids_beside_an_unknown_rest(
    "inf2.48xlarge", &[(Init, 2, 0), (App, 1, 0), (App, 2, 0)],
    "container c2 asks for 2 devices, init containers hand down 1"
)]
#[case::cores_two_of_four(
    "trn2.48xlarge", &[(Init, 0, 4), (App, 0, 2), (App, 0, 2)],
    "container c1 asks for 2 cores, init containers hand down 4"
)]
#[case::cores_beside_allowed_devices(
    "inf2.48xlarge", &[(Init, 1, 3), (App, 1, 2)], "container c1 asks for 2 cores, init containers hand down 3"
)]
#[case::torus_four_of_eight(
    "trn1.32xlarge", &[(Init, 8, 0), (App, 4, 0)], "container c1 asks for 4 devices, init containers hand down 8"
)]
fn requests_for_which_kubelet_could_hand_down_an_unlinked_set(
    #[case] instance_type: &str,
    #[case] requests: &[(Role, u32, u32)],
    #[case] expected: &str,
) {
    let refusal = refused(&pod(requests), &node(instance_type));
    assert_eq!(
        refusal.to_string(),
        format!(
            "init containers from which kubelet could hand down an unlinked set: {expected}; \
             ask for the same count or make the init container a sidecar"
        )
    );
    assert!(refusal.is_permanent());
}

/// The way out that the message names works.
#[rstest]
#[case::same_count(&[(Init, 2, 0), (App, 2, 0), (App, 2, 0)])]
#[case::sidecar(&[(Sidecar, 4, 0), (App, 2, 0), (App, 2, 0)])]
fn the_ways_out_of_a_refusal_work(#[case] requests: &[(Role, u32, u32)]) {
    assert!(place(&pod(requests), &node("inf2.48xlarge")).is_ok());
}

#[test]
fn a_part_may_be_handed_down_where_every_subset_is_linked() {
    // Devices behind a switch are all linked to each other, so under `linked` kubelet cannot break anything.
    let linked = node_under("trn3.48xlarge", Policy::Linked, "", "");
    let request = pod(&[(Init, 8, 0), (App, 4, 0), (App, 4, 0)]);
    assert_eq!(
        given(&request, &linked),
        "c0: devices 0,1,2,3,4,5,6,7; c1: devices 0,1,2,3*; c2: devices 4,5,6,7*"
    );
    assert!(refused(&request, &node("trn3.48xlarge")).is_permanent());
}

#[test]
fn an_unknown_rest_may_be_joined_by_fresh_ids_where_every_outcome_is_linked() {
    // Either of 0 and 1 closes the ring's other ten to a line of eleven.
    let ring = node_under("inf2.48xlarge", Policy::Linked, "", "");
    let request = pod(&[(Init, 2, 0), (App, 1, 0), (App, 11, 0)]);
    assert_eq!(
        given(&request, &ring),
        "c0: devices 0,1; c1: devices 0*; c2: devices 1,2,3,4,5,6,7,8,9,10,11*"
    );
}

#[test]
fn fresh_ids_may_join_whichever_of_two_is_left() {
    // Either of two linked devices makes a linked four with the same three others, though not both with any two of them.
    let torus = node_under("trn2.48xlarge", Policy::Linked, "", "");
    let request = pod(&[(Init, 2, 0), (App, 1, 0), (App, 4, 0)]);
    assert_eq!(given(&request, &torus), "c0: devices 0,1; c1: devices 0*; c2: devices 1,2,3,6*");
}

#[test]
fn a_request_that_only_this_moment_forbids_is_not_permanent() {
    // A ring of eleven fits only while all twelve are free.
    let ring = node_under("inf2.48xlarge", Policy::Linked, "0", "");
    let refusal = refused(&pod(&[(Init, 2, 0), (App, 1, 0), (App, 11, 0)]), &ring);
    assert_eq!(refusal.to_string(), "not enough free: Neuron devices asked 12, free 11 of 12");
    assert!(!refusal.is_permanent());
}

#[test]
fn a_handed_down_set_is_held_once() {
    let node = node_at("trn2.48xlarge", 1, Policy::Documented, "", "");
    let placement = place(&pod(&[(Init, 0, 8), (App, 0, 8)]), &node).unwrap();
    assert_eq!(placement.hardware(node.topology()).len(), 8);
    assert_eq!(placement.union_cores(), placement.containers[0].cores);
}

#[rstest]
#[case("inf1.24xlarge", 1, 60)]
#[case("trn2.48xlarge", 1, 128)]
#[case("trn2.48xlarge", 2, 64)]
fn as_many_cores_as_an_init_container_hands_down_are_all_of_them(
    #[case] instance_type: &str,
    #[case] lnc: u8,
    #[case] count: u32,
) {
    let node = node_at(instance_type, lnc, Policy::Documented, "", "");
    let placement = place(&pod(&[(Init, 0, count), (App, 0, count)]), &node).unwrap();
    assert_eq!(placement.containers[0].cores, placement.containers[1].cores);
    assert_eq!(placement.union_cores().len(), count);
}

/// So many init containers whose devices go on to a sidecar that takes one, so that the app container finds no row: as
/// much work as a pod's author can make without asking for more hardware than a node has.
fn many_inits(inits: usize) -> Vec<(Role, u32, u32)> {
    [vec![(Init, 4, 0); inits], vec![(Sidecar, 1, 0), (App, 4, 0)]].concat()
}

#[test]
fn a_pod_of_very_many_containers_is_refused_before_anything_is_searched() {
    let refusal = refused(&pod(&many_inits(100_000)), &node("trn1.32xlarge"));
    let why =
        "100002 containers of the pod ask for Neuron hardware, at most 128 are placed; ask in fewer of them";
    assert_eq!(refusal.to_string(), why);
    assert!(refusal.is_permanent());
}

#[test]
fn a_pod_of_as_many_containers_as_are_placed_is_told_which_one_does_not_fit() {
    let refusal = refused(&pod(&many_inits(126)), &node("trn1.32xlarge"));
    let why = "nothing is left for the 4 devices of container c127";
    assert_eq!(
        refusal.to_string(),
        format!("the pod's containers never fit together on trn1.32xlarge: {why}")
    );
    let cores = vec![cores(1); 128];
    assert!(place(&pod(&cores), &node_at("trn2.48xlarge", 1, Policy::Documented, "", "")).is_ok());
}
