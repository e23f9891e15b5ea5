//! The tables of `neuron-e2e` and its drawing of a node of each shape.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::collections::BTreeMap;

use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_e2e::report::{Row, drawing, tables};
use neuron_e2e_engine::outcome::{Outcome, PodOutcome};
use neuron_e2e_engine::run::Finished;
use neuron_e2e_engine::scenario::{CatalogSource, Scenario, library};
use plugin_conformance::results as conformance;

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
    library::parse(name, &text, &CatalogSource::default()).unwrap().remove(0)
}

/// A pod that runs on n1 with these devices and cores, as comma lists.
fn running(devices: &str, cores: &str) -> PodOutcome {
    let sets = ContainerAllocation { devices: devices.parse().unwrap(), cores: cores.parse().unwrap() };
    let containers = [("main".into(), sets)].into_iter().collect();
    let allocation = Allocation { node: "n1".into(), lnc: 1, containers };
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
    let mut table = tables::list(&library::all(&CatalogSource::default()).unwrap());
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
    let mut table = tables::results(&rows);
    let table = table.force_no_tty().set_width(WIDTH);
    show("results", &format!("{table}\n{}", tables::summary(&rows)));
}

#[test]
fn a_conformance_table_stays_narrow_whatever_failed() {
    let row = |file, case, result, seen: &str| conformance::Row {
        file,
        case,
        result,
        seen: seen.to_owned(),
        steps: Vec::new(),
        seconds: 1.0,
    };
    let (file, failures) = ("device_plugin_test.go", "device_plugin_failures_test.go");
    let restarted =
        "Keeps device plugin assignments across kubelet restarts (no pod restart, no device plugin restart)";
    let long = "evidence: /tmp/neuron-e2e-failures/neuron-e2e-conformance/keeps-device-plugin-assignments: waited 120 s \
                for pod p to run: ApiError: pods \"p\" is forbidden: exceeded quota: small\nlast seen: phase Pending";
    let rows = [
        row(
            file,
            "Can schedule a pod that requires a device",
            conformance::CaseResult::Passed,
            "neuron0 in the container and in kubelet's podresources",
        ),
        row(
            file,
            "can make a CDI device accessible in a container",
            conformance::CaseResult::NotApplicable,
            "this plugin hands out device nodes, no CDI devices; this node has containerd://1.6.20, CDI needs 1.7",
        ),
        row(file, restarted, conformance::CaseResult::Failed, long),
        row(
            failures,
            "when device plugin is stopped after provisioning devices, node allocatable will be set to zero",
            conformance::CaseResult::Failed,
            "allocatable 6 of 6, not 0 of 6",
        ),
    ];
    let mut table = conformance::table(&rows);
    let table = table.force_no_tty().set_width(WIDTH);
    let below = conformance::failures(&rows);
    show("conformance", &format!("{table}\n{below}{}", conformance::summary(&rows)));
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
        show(&format!("drawing-{shape}"), &drawing::nodes(&scenario(shape, instance_type), &pods));
    }
}
