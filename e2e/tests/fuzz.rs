//! Random scenarios: what a seed makes, how a failing one is made smaller, and the command.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::process::{Command, Output};

use neuron_core::request::Role;
use neuron_e2e_engine::embedded::{self, Options};
use neuron_e2e_engine::fuzz::plan::{Action, ContainerPlan, NodePlan, Plan, PodPlan};
use neuron_e2e_engine::fuzz::shrink::{are_alike, shrink};
use neuron_e2e_engine::fuzz::{comparable, generate};
use neuron_e2e_engine::scenario::{CatalogSource, DeviceState, Part, library};
use serde_json::Value;

/// The plan of a seed, of the types in the program.
fn plan(seed: u64) -> Plan {
    generate::plan(seed, &CatalogSource::default())
}

fn comparable_plan(seed: u64) -> Plan {
    comparable::plan(seed, &CatalogSource::default())
}

fn fuzz(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_neuron-e2e")).arg("fuzz").args(arguments).output().unwrap()
}

#[test]
fn the_same_seed_makes_the_same_plan_and_others_make_others() {
    for seed in 0..50 {
        assert_eq!(plan(seed), plan(seed));
        assert_ne!(plan(seed).actions, plan(seed + 1).actions);
    }
}

#[test]
fn every_plan_is_a_scenario_file() {
    for seed in 0..300 {
        let plan = plan(seed);
        assert!((3..=12).contains(&plan.actions.len()), "seed {seed}");
        let scenarios =
            library::parse("fuzz", &plan.to_yaml("A random scenario.").unwrap(), &plan.catalog).unwrap();
        assert_eq!(scenarios.len(), 1);
        assert_eq!(scenarios[0].expect.len(), plan.nodes.len(), "a pod for all devices of each node");
    }
}

#[test]
fn comparable_plans_have_everything_but_what_goes_by_chance() {
    let plans: Vec<Plan> = (0..300).map(comparable_plan).collect();
    assert_eq!(plans, (0..300).map(comparable_plan).collect::<Vec<_>>());
    for plan in &plans {
        assert_eq!(comparable::why_not(plan), None, "seed {}", plan.seed);
        assert!(!plan.to_yaml("A random scenario.").unwrap().contains("invariants_only"));
    }
    let actions: Vec<&Action> =
        plans.iter().flat_map(|plan| &plan.actions).flat_map(|action| action.flat()).collect();
    for part in [Part::Extender, Part::Plugin, Part::Kubelet, Part::Scheduler] {
        assert!(actions.iter().any(|action| matches!(action, Action::Restart(other, _) if *other == part)));
        assert!(actions.iter().any(|action| matches!(action, Action::Without(other, ..) if *other == part)));
    }
    assert!(actions.iter().any(|action| matches!(action, Action::Together(pods) if pods.len() > 2)));
    assert!(actions.iter().any(|action| matches!(action, Action::Device(..))));
    assert!(actions.iter().any(|action| matches!(action, Action::Delete(_))));
    let pods = || plans.iter().flat_map(Plan::pods).map(|(_, pod)| pod);
    assert!(pods().any(PodPlan::has_init));
    let longest = plans.iter().map(|plan| plan.actions.len()).max();
    assert!(longest > Some(8), "{longest:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn comparable_plans_come_out_the_same_whatever_kubelet_chooses() {
    for seed in 0..8 {
        let scenario = comparable_plan(seed).scenario().unwrap();
        let mut outcomes = Vec::new();
        for options in [1, 2].map(|seed| Options { seed, ..Options::default() }) {
            let finished = embedded::run(&scenario, options).await.unwrap();
            assert_eq!(finished.failures, Vec::<String>::new(), "seed {seed}");
            outcomes.push(finished.outcome.to_text().unwrap());
        }
        assert_eq!(outcomes[0], outcomes[1], "seed {seed}");
    }
}

#[test]
fn plans_together_have_everything_that_can_happen() {
    let plans: Vec<Plan> = (0..300).map(plan).collect();
    let actions: Vec<&Action> =
        plans.iter().flat_map(|plan| &plan.actions).flat_map(|action| action.flat()).collect();
    for part in [Part::Extender, Part::Plugin, Part::Kubelet, Part::Scheduler] {
        assert!(actions.iter().any(|action| matches!(action, Action::Restart(other, _) if *other == part)));
        assert!(actions.iter().any(|action| matches!(action, Action::Without(other, ..) if *other == part)));
    }
    for state in [DeviceState::Lost, DeviceState::Unhealthy, DeviceState::Healthy] {
        assert!(
            actions.iter().any(|action| matches!(action, Action::Device(_, _, other) if *other == state))
        );
    }
    let pods = || plans.iter().flat_map(Plan::pods).map(|(_, pod)| pod);
    let containers = || pods().flat_map(|pod| &pod.containers);
    assert!(pods().any(|pod| pod.ends_after.is_some()));
    assert!(containers().any(|container| container.role == Role::Init && container.devices > 0));
    assert!(containers().any(|container| container.role == Role::Sidecar && container.cores > 0));
    assert!(containers().any(|container| (container.devices, container.cores) == (0, 0)));
    assert!(plans.iter().any(|plan| plan.nodes.len() == 2));
    assert!(plans.iter().any(|plan| plan.nodes.iter().any(|node| node.lnc == Some(1))));
}

fn container(devices: u32) -> ContainerPlan {
    ContainerPlan { role: Role::App, devices, cores: 0 }
}

fn pod(name: &str, containers: &[ContainerPlan]) -> PodPlan {
    PodPlan { name: name.into(), containers: containers.to_vec(), ends_after: Some(3) }
}

#[tokio::test]
async fn a_failing_plan_keeps_only_what_it_fails_of() {
    let node = NodePlan { instance_type: "inf2.24xlarge".into(), lnc: None, devices: 6 };
    let large = Plan {
        seed: 0,
        catalog: CatalogSource::default(),
        nodes: vec![node.clone(), node],
        actions: vec![
            Action::Apply(vec![pod("a", &[container(1)])]),
            Action::Without(
                Part::Plugin,
                0,
                vec![Action::Together(vec![
                    pod("b", &[container(1), container(4)]),
                    pod("c", &[container(2)]),
                ])],
            ),
            Action::Device(1, 2, DeviceState::Lost),
            Action::Delete(vec!["a".into(), "b".into()]),
        ],
    };
    // Fails wherever b asks for two devices or more and is deleted.
    let fails = async |plan: &Plan| {
        let asks = |pod: &PodPlan| pod.name == "b" && pod.containers.iter().any(|one| one.devices > 1);
        let deletes =
            |action: &Action| matches!(action, Action::Delete(names) if names.contains(&"b".into()));
        let failed = plan.pods().any(|(_, pod)| asks(pod)) && plan.actions.iter().any(deletes);
        if failed { vec!["broken".to_owned()] } else { Vec::new() }
    };
    let (small, failures) = shrink(large, vec!["broken".into()], 100, fails).await;
    assert_eq!(failures, ["broken"]);
    assert_eq!(small.nodes.len(), 1);
    let left = PodPlan { ends_after: None, ..pod("b", &[container(2)]) };
    assert_eq!(small.actions, [Action::Apply(vec![left]), Action::Delete(vec!["b".into()])]);
}

#[tokio::test]
async fn making_smaller_ends_with_its_attempts() {
    let mut tried = 0;
    let before = plan(7);
    let (after, _) = shrink(before.clone(), vec!["broken".into()], 5, async |_: &Plan| {
        tried += 1;
        Vec::new()
    })
    .await;
    assert_eq!((after, tried), (before, 5));
}

#[test]
fn failures_are_alike_whatever_pod_and_set_they_name() {
    let alike = |one: &str, other: &str| are_alike(&[one.to_owned()], &[other.to_owned()]);
    let swapped = "action 4: pod p1: container c0 has cores {} and devices {8,9}, its record says {} and {1}";
    let swapped_too = "when everything is deleted: pod p3: container c2 has cores {4} and devices {}, its record says {5} and {}";
    assert!(alike(swapped, swapped_too));
    assert!(!alike(swapped, "action 1: pod p7 failed: UnexpectedAdmissionError: Pod was rejected"));
    assert!(!alike(swapped, "action 1: step 4 (start): waited 15 s for the extender to be ready"));
}

#[test]
fn the_command_counts_what_it_ran() {
    let output = fuzz(&["--seed", "2", "--count", "2"]);
    let (told, counted) =
        (String::from_utf8(output.stderr).unwrap(), String::from_utf8(output.stdout).unwrap());
    assert_eq!(output.status.code(), Some(0), "{told}");
    assert!(told.contains("seed 2") && told.contains("seed 3"), "{told}");
    assert_eq!(counted.lines().last(), Some("2 passed, 0 failed"));
}

#[test]
fn json_has_a_row_for_each_seed() {
    let output = fuzz(&["--seed", "3", "--count", "1", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8(output.stderr).unwrap());
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((rows.len(), &rows[0]["seed"], &rows[0]["passed"]), (1, &Value::from(3), &Value::Bool(true)));
}
