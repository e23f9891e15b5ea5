//! The tables of `neuron-e2e` and its drawing of a node of each shape.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::collections::BTreeMap;

use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_e2e::draw;
use neuron_e2e::library;
use neuron_e2e::outcome::{Outcome, PodOutcome};
use neuron_e2e::output::{self, Row};
use neuron_e2e::run::Finished;
use neuron_e2e::scenario::Scenario;

/// Columns of the terminal that the tables are made for.
const WIDTH: u16 = 120;

fn show(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("command_line");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// A scenario with one node of this type and nothing to do.
fn scenario(name: &str, instance_type: &str) -> Scenario {
    let text = format!("about: Shows {name}.\nnodes: [{{type: {instance_type}}}]\nsteps: []\n");
    library::parse(name, &text).unwrap().remove(0)
}

/// A pod that runs on n1 with these devices and cores, as comma lists.
fn running(devices: &str, cores: &str) -> PodOutcome {
    let sets = ContainerAllocation { devices: devices.parse().unwrap(), cores: cores.parse().unwrap() };
    let allocation = Allocation { node: "n1".into(), lnc: 1, containers: [("main".to_owned(), sets)].into() };
    PodOutcome {
        phase: "Running".into(),
        node: Some("n1".into()),
        annotations: allocation.annotations(true, "0"),
        ..PodOutcome::default()
    }
}

fn outcome<const N: usize>(pods: [(&str, PodOutcome); N]) -> Outcome {
    Outcome { version: 1, pods: pods.map(|(name, pod)| (name.to_owned(), pod)).into() }
}

/// Two pods under either name, one of which starts and ends mid-device, and one that waits.
fn fixed() -> Outcome {
    let waits = PodOutcome { phase: "Pending".into(), ..PodOutcome::default() };
    outcome([("devices", running("2,3", "")), ("cores", running("", "1,2")), ("waits", waits)])
}

#[test]
fn scenarios_are_listed() {
    let mut table = output::list(&library::all().unwrap());
    show("list", &table.force_no_tty().to_string());
}

#[test]
fn results_are_a_table() {
    let mut deleted = running("0", "");
    deleted.deleted = true;
    let many: BTreeMap<String, PodOutcome> =
        (0..6).map(|id| (format!("pod-{id}"), running(&id.to_string(), ""))).collect();
    let failures = vec!["pod waits: is Pending, not Running".to_owned()];
    let refused = PodOutcome { phase: "Refused".into(), ..PodOutcome::default() };
    let finished = |outcome, failures| Ok(Finished { outcome, failures });
    let rows = [
        Row::new(&scenario("two-names", "inf2.24xlarge"), finished(fixed(), Vec::new()), 0.5),
        Row::new(
            &scenario("many-pods", "inf2.24xlarge"),
            finished(Outcome { version: 1, pods: many }, Vec::new()),
            0.5,
        ),
        Row::new(
            &scenario("not-running", "trn1.32xlarge"),
            finished(outcome([("deleted", deleted), ("refused", refused)]), Vec::new()),
            0.5,
        ),
        Row::new(&scenario("wrong", "inf2.24xlarge"), finished(fixed(), failures), 0.5),
        Row::new(
            &scenario("broken", "inf2.24xlarge"),
            Err(anyhow::anyhow!("no answer").context("step 1 (apply)")),
            20.0,
        ),
    ];
    let mut table = output::table(&rows);
    let table = table.force_no_tty().set_width(WIDTH);
    show("results", &format!("{table}\n{}", output::summary(&rows)));
}

#[test]
fn every_shape_is_drawn() {
    let drawings = [
        ("single", "inf2.xlarge"),
        ("line", "inf1.6xlarge"),
        ("ring", "inf2.48xlarge"),
        ("torus", "trn1.32xlarge"),
        ("switch", "trn3.48xlarge"),
    ];
    for (shape, instance_type) in drawings {
        let pods = if shape == "single" { outcome([("one", running("", "1"))]) } else { fixed() };
        show(&format!("drawing-{shape}"), &draw::nodes(&scenario(shape, instance_type), &pods));
    }
}
