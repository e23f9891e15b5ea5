//! The embedded cluster and a run on it: what the options change, and that a run can fail.

#![allow(clippy::panic, clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::collections::BTreeSet;
use std::time::Duration;

use neuron_e2e_engine::embedded::{self, Options};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario, Tier, library};

/// kubelet hands any one of the init container's four devices down.
const ONE_OF_FOUR: &str = include_str!("../../scenarios/init-one-of-four.yaml");

fn scenario(text: &str) -> Scenario {
    library::parse("test", text, &CatalogSource::default()).unwrap().remove(0)
}

/// The device that was handed down.
async fn handed_down(options: Options) -> String {
    let finished = embedded::run(&scenario(ONE_OF_FOUR), options).await.unwrap();
    assert_eq!(finished.failures, Vec::<String>::new());
    finished.outcome.pods["shrinks"].containers["main"].env["AWS_NEURON_VISIBLE_DEVICES"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_seed_decides_what_kubelet_chooses() {
    let mut chosen = Vec::new();
    for seed in 0..5 {
        chosen.push(handed_down(Options { seed, ..Options::default() }).await);
    }
    assert!(chosen.iter().collect::<BTreeSet<_>>().len() > 1, "{chosen:?}");
    assert_eq!(handed_down(Options { seed: 4, ..Options::default() }).await, chosen[4]);
}

#[tokio::test(flavor = "multi_thread")]
async fn adversarial_kubelets_choose_the_last_whatever_the_seed() {
    for seed in 0..3 {
        assert_eq!(handed_down(Options { seed, adversarial: true, ..Options::default() }).await, "3");
    }
}

/// What is wrong with a scenario.
async fn failures(scenario: &Scenario) -> Vec<String> {
    embedded::run(scenario, Options::default()).await.unwrap().failures
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expectation_that_is_not_met_fails_the_scenario() {
    let text = "about: x\nnodes: [{type: inf2.xlarge}]\nsteps: []\nexpect: {one: {phase: Running}}\n";
    assert_eq!(failures(&scenario(text)).await, ["pod one is not there"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_device_that_stays_lost_fails_a_scenario_of_the_fault_tier_only() {
    let text = "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{device: {device: 2, becomes: lost}}]\n";
    let placement = scenario(text);
    assert_eq!(failures(&placement).await, Vec::<String>::new());
    let failures = failures(&Scenario { tier: Tier::Faults, ..placement }).await;
    let [failure] = failures.as_slice() else { panic!("{failures:?}") };
    let expected = "cores 0,1,2,3,4,5,6,7,8,9,10,11 cannot be had: pod asks-for-the-rest-of-n1 is Pending: ";
    assert!(failure.starts_with(expected), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_extender_leads_after_each_kill_of_the_leader() {
    let text = include_str!("../../scenarios/endurance/leader-kills.yaml").replace("round: 20", "round: 3");
    let kills = Scenario { tier: Tier::Faults, ..scenario(&text) };
    let finished = embedded::run(&kills, Options::default()).await.unwrap();
    assert_eq!(finished.failures, Vec::<String>::new());
    let pods = finished.outcome.pods;
    assert_eq!(pods.len(), 3 * 12);
    assert!(pods.values().all(|pod| pod.phase == "Running" && pod.deleted), "{pods:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_come_and_go_while_parts_are_killed() {
    let text = include_str!("../../scenarios/endurance/churn.yaml")
        .replace("number: 100", "number: 6")
        .replace("kill-every: 6", "kill-every: 1");
    let churn = Scenario { tier: Tier::Faults, ..scenario(&text) };
    let finished = embedded::run(&churn, Options::default()).await.unwrap();
    assert_eq!(finished.failures, Vec::<String>::new());
    // Six of each, the one that takes everything afterwards, and no probe, as nothing is left.
    assert_eq!(finished.outcome.pods.len(), 37);
    let seldom = scenario(&text.replace("kill-every: 1", "kill-every: 3600"));
    let error = format!("{:#}", embedded::run(&seldom, Options::default()).await.unwrap_err());
    assert!(error.contains("churn was over before extender on n1 was killed"), "{error}");
}

/// The scenario of two hundred rounds, with three of them.
fn forced_deletions() -> String {
    include_str!("../../scenarios/endurance/forced-deletions.yaml").replace("round: 200", "round: 3")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_pods_deleted_by_force_had_is_had_by_the_next_one() {
    let forced = Scenario { tier: Tier::Faults, ..scenario(&forced_deletions()) };
    let finished = embedded::run(&forced, Options::default()).await.unwrap();
    assert_eq!(finished.failures, Vec::<String>::new());
    let pods = finished.outcome.pods;
    assert_eq!(pods.keys().collect::<Vec<_>>(), ["all-1", "all-2", "all-3"]);
    assert!(pods.values().all(|pod| pod.phase == "Running" && pod.deleted), "{pods:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_that_fails_before_it_is_deleted_by_force_fails_the_scenario() {
    // kubelet refuses it: the node has six devices.
    let asks = "resources: {limits: {aws.amazon.com/neuron: 1}}";
    let text = forced_deletions().replacen(asks, "resources: {limits: {aws.amazon.com/neuron: 7}}", 1);
    let text = text.replacen(
        "{name: \"device-${round}\"}\n      spec:",
        "{name: \"device-${round}\"}\n      spec:\n        nodeName: n1",
        1,
    );
    let error = embedded::run(&scenario(&text), Options::default()).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("(running): pod device-1 has failed and will never run: "), "{error}");
}

/// A pod that has a core, and one that says it has the same: no plugin has given it.
const ONE_CORE_TWICE: &str = "
about: x
nodes: [{type: inf2.xlarge}]
steps:
- apply: [{apiVersion: v1, kind: Pod, metadata: {name: holder}, spec: {containers: [
    {name: main, image: neuron-workload, resources: {limits: {aws.amazon.com/neuroncore: 1}}}]}}]
- advance-clock: 2
- apply: [{apiVersion: v1, kind: Pod, metadata: {name: other}, spec: {containers: [
    {name: main, image: neuron-workload, env: [{name: NEURON_RT_VISIBLE_CORES, value: '0'}]}]}}]
- advance-clock: 2
";

#[tokio::test(flavor = "multi_thread")]
async fn what_two_pods_had_at_one_time_is_found_though_both_are_deleted_by_force() {
    // Nobody waits for what is wrong to become right.
    let soon = Duration::from_secs(5);
    for end in ["- force-delete: [holder, other]", "- delete: [holder]\n- force-delete: [other]"] {
        let twice = scenario(&format!("{ONE_CORE_TWICE}{end}\n"));
        let on_it = twice.clone();
        let finished = embedded::on_cluster(&twice, Options::default(), async move |cluster| {
            cluster.with_timeout(soon).run(&on_it).await
        });
        let failures = finished.await.unwrap().failures;
        let [failure] = failures.as_slice() else { panic!("{end}: {failures:?}") };
        assert!(failure.starts_with("pod other began to hold cores 0 of n1 at "), "{failure}");
        assert!(failure.ends_with(", while pod holder held them"), "{failure}");
    }
}
