//! Exclusivity, of what ran at any time: pods that are gone in the end are in no outcome.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use neuron_e2e_engine::invariants::Invariant;
use neuron_e2e_engine::outcome::PodOutcome;
use rstest::rstest;
use serde_json::{Value, json};

use super::world::{World, violates};

/// What a look saw of a container: its pod, the cores that it has, its state as kubelet shows it.
type ContainerLook = (&'static str, &'static str, Value);

/// The world after these looks, one after the other. Every pod has one container; only `rebooted` has failed.
fn after(world: &mut World, looks: Vec<Vec<ContainerLook>>) {
    for look in looks {
        world.history.begin_look();
        for (name, cores, state) in look {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": name, "uid": format!("uid of {name}")},
                "status": {"containerStatuses": [
                    {"name": "main", "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": state},
                ]},
            }))
            .unwrap();
            let report = json!({"env": {"NEURON_RT_VISIBLE_CORES": cores}, "devices": []});
            let outcome = PodOutcome {
                phase: if name == "rebooted" { "Failed" } else { "Running" }.into(),
                node: Some(if name == "elsewhere" { "n2" } else { "n1" }.into()),
                containers: [("main".to_owned(), serde_json::from_value(report).unwrap())].into(),
                ..PodOutcome::default()
            };
            let statuses = pod.status.clone().unwrap().container_statuses.unwrap();
            world.history.add(&pod, &outcome, statuses.iter());
        }
    }
}

fn at(second: u32) -> String {
    format!("2026-11-21T12:00:{second:02}Z")
}

fn ran(from: u32, to: u32) -> Value {
    json!({"terminated": {"exitCode": 0, "startedAt": at(from), "finishedAt": at(to)}})
}

fn runs(from: u32) -> Value {
    json!({"running": {"startedAt": at(from)}})
}

fn waits_to_be_started_again() -> Value {
    json!({"waiting": {"reason": "CrashLoopBackOff"}})
}

/// kubelet's state of a container that it could not start.
fn not_started() -> Value {
    json!({"terminated": {"exitCode": 128, "startedAt": "1970-01-01T00:00:00Z", "finishedAt": at(9)}})
}

const ALL_WHILE_SHORT: &str =
    "pod all began to hold cores 1 of n1 at 2026-11-21T12:00:03Z, while pod short held them";

#[rstest]
#[case::both_ended(
    |world: &mut World| after(world, vec![vec![("short", "1", ran(2, 4)), ("all", "0,1", ran(3, 9))]]),
    ALL_WHILE_SHORT
)]
#[case::one_gone_when_the_other_is_seen(
    |world: &mut World| after(world, vec![vec![("short", "1", ran(2, 4))], vec![("all", "0,1", runs(3))]]),
    ALL_WHILE_SHORT
)]
#[case::both_run(
    |world: &mut World| after(world, vec![vec![("short", "1", runs(2)), ("all", "0,1", runs(3))]]),
    ALL_WHILE_SHORT
)]
#[case::one_waits_to_be_started_again(
    |world: &mut World| after(
        world,
        vec![vec![("one", "1", ran(2, 3))], vec![("one", "1", waits_to_be_started_again()), ("two", "1", runs(5))]],
    ),
    "pod two began to hold cores 1 of n1 at 2026-11-21T12:00:05Z, while pod one held them"
)]
fn two_pods_that_held_a_core_at_one_time_are_found(#[case] change: fn(&mut World), #[case] text: &str) {
    violates(change, Invariant::Exclusivity, text);
}

/// Pod `forced` holds core 1 from second 2 on, and is deleted at that second.
fn deleted_by_force_at(world: &mut World, second: u32) {
    after(world, vec![vec![("forced", "1", runs(2))]]);
    let now: Timestamp = format!("2026-11-21T12:00:{second:02}.9Z").parse().unwrap();
    world.history.held_until("uid of forced", now);
}

#[rstest]
#[case::the_other_is_gone_too(ran(4, 9))]
#[case::the_other_runs(runs(4))]
fn what_a_pod_held_until_it_was_deleted_by_force_nobody_else_held(#[case] other: Value) {
    let text = "pod all began to hold cores 1 of n1 at 2026-11-21T12:00:04Z, while pod forced held them";
    let mut world = World::new();
    deleted_by_force_at(&mut world, 5);
    after(&mut world, vec![vec![("all", "0,1", other)]]);
    let found: Vec<String> = world.violations().iter().map(ToString::to_string).collect();
    assert_eq!(found, [text]);
}

/// kubelet offers what it had before its processes have ended, and without `--handover` nobody waits for them.
#[rstest]
#[case::in_that_second(5)]
#[case::later(6)]
fn what_a_pod_held_that_was_deleted_by_force_others_hold_from_then_on(#[case] began: u32) {
    let mut world = World::new();
    deleted_by_force_at(&mut world, 5);
    after(&mut world, vec![vec![("all", "0,1", runs(began))]]);
    assert_eq!(world.violations(), []);
}

#[rstest]
#[case::one_ended_when_the_other_began(vec![vec![("short", "1", ran(2, 3)), ("all", "0,1", ran(3, 3))]])]
#[case::one_ended_in_the_second_in_which_both_began(vec![vec![("short", "1", ran(3, 3)), ("all", "0,1", runs(3))]])]
#[case::one_gone_that_began_in_the_same_second(vec![vec![("short", "1", runs(3))], vec![("all", "0,1", runs(3))]])]
#[case::other_cores(vec![vec![("one", "0", runs(2)), ("two", "1", runs(3))]])]
#[case::another_node(vec![vec![("one", "1", runs(2)), ("elsewhere", "1", runs(3))]])]
#[case::its_own_container_again(vec![vec![("one", "1", ran(2, 5))], vec![("one", "1", runs(3))]])]
#[case::one_could_not_be_started(vec![vec![("one", "1", ran(2, 3)), ("two", "1", not_started())]])]
// Nobody knows when it ended: failed by a kubelet that came back, deleted between the looks.
#[case::one_failed_after_a_reboot(vec![vec![("rebooted", "1", runs(2)), ("all", "0,1", runs(3))]])]
#[case::one_deleted_between_the_looks(vec![vec![("short", "1", runs(2))], vec![("all", "0,1", runs(3))]])]
fn one_after_the_other_and_side_by_side_is_right(#[case] looks: Vec<Vec<ContainerLook>>) {
    let mut world = World::new();
    after(&mut world, looks);
    assert_eq!(world.violations(), []);
}
