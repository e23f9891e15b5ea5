//! The kit against a plugin that does everything right, and against one for each defect, which the cases for it must see and no
//! others. The plugin is a process: this program, started again.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

mod defect;
mod fixture;

use std::collections::BTreeSet;
use std::time::Duration;

use futures::StreamExt as _;
use futures::future::join_all;
use plugin_conformance::results::{CaseResult, Row};
use plugin_conformance::{CASES, EmbeddedNode, EmbeddedPlugin, run_embedded};
use testkit_support::Wait;

use defect::{Defect, EXPECTED, OF_KUBELET};

/// Kits side by side; they wait more than they work.
const SIDE_BY_SIDE: usize = 12;
const RESOURCE: &str = "test.example/fixture";

/// Not a test, but the plugin, where its environment says so.
#[tokio::test]
async fn plugin_process() {
    if std::env::var_os(fixture::SETTINGS[0]).is_some() {
        fixture::run().await;
    }
}

/// The fixture as a command for the kit.
fn plugin(defect: Defect) -> EmbeddedPlugin {
    let program = std::env::current_exe().unwrap();
    let [name, plugins, folder, devices, resource] = fixture::SETTINGS;
    let command = format!(
        "env {name}={defect:?} {plugins}={{plugins-dir}} {folder}={{folder}} {devices}={{count}} {resource}={{resource}} '{}' \
         --exact plugin_process --nocapture",
        program.display()
    );
    EmbeddedPlugin {
        unhealthy_command: Some(
            "mkdir -p {folder}/unhealthy && touch {folder}/unhealthy/{device}".to_owned(),
        ),
        healthy_command: Some("rm -f {folder}/unhealthy/{device}".to_owned()),
        // Two of one socket are another defect than the one that is looked for.
        takes_over_within: (defect != Defect::Leftover).then_some(Duration::ZERO),
        wait: Wait { timeout: Duration::from_secs(3), poll: Duration::from_millis(20) },
        steady: Duration::from_millis(400),
        ..EmbeddedPlugin::new(command, RESOURCE, 4)
    }
}

/// All cases; on several nodes, each a part, where most of them wait until their time is over.
async fn rows(defect: Defect) -> Vec<Row> {
    let nodes = if defect == Defect::RegistersOnce { 3 } else { 1 };
    let parts = CASES.chunks(CASES.len().div_ceil(nodes)).map(async |cases| {
        let node = EmbeddedNode::up(plugin(defect)).await.unwrap();
        run_embedded(&node, &cases.iter().collect::<Vec<_>>(), |_| {}).await
    });
    join_all(parts).await.into_iter().flatten().collect()
}

/// What came of the failed ones, for a test that fails.
fn failures(rows: &[Row]) -> String {
    let failed = rows.iter().filter(|row| row.result == CaseResult::Failed);
    failed.map(|row| format!("\n{}: {}\n  {}", row.case, row.seen, row.steps.join("\n  "))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_without_defect_passes() {
    let rows = rows(Defect::Nothing).await;
    assert!(rows.iter().all(|row| row.result != CaseResult::Failed), "{}", failures(&rows));
    let left_out: Vec<&str> =
        rows.iter().filter(|row| row.result == CaseResult::NotApplicable).map(|row| row.case).collect();
    assert_eq!(
        left_out,
        [
            "can make a CDI device accessible in a container",
            "will report a Device Status for the failed pod in the pod status",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn each_defect_is_caught_by_the_cases_for_it_and_no_others() {
    let checked = futures::stream::iter(EXPECTED).map(|(defect, expected)| async move {
        let rows = rows(*defect).await;
        let failed: BTreeSet<&str> =
            rows.iter().filter(|row| row.result == CaseResult::Failed).map(|row| row.case).collect();
        let is_expected = |case: &str| expected.iter().any(|name| case.starts_with(name));
        let right = failed.len() == expected.len() && failed.iter().all(|case| is_expected(case));
        println!("{defect:?}: {failed:?}");
        (!right).then(|| format!("{defect:?}: {} cases should fail{}", expected.len(), failures(&rows)))
    });
    let wrong: Vec<String> =
        checked.buffer_unordered(SIDE_BY_SIDE).filter_map(std::future::ready).collect().await;
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
fn every_case_has_a_defect_or_a_reason() {
    let names = || {
        let caught = EXPECTED.iter().flat_map(|(_, cases)| cases.iter().copied());
        caught.chain(OF_KUBELET.iter().map(|(case, _)| *case))
    };
    for case in CASES {
        assert!(names().any(|name| case.name.starts_with(name)), "{}", case.name);
    }
    for name in names() {
        assert_eq!(CASES.iter().filter(|case| case.name.starts_with(name)).count(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_plugin_that_cannot_be_prepared_is_told_from_one_that_fails() {
    let impatient = Wait { timeout: Duration::from_secs(1), poll: Duration::from_millis(20) };
    let why = async |plugin| format!("{:#}", EmbeddedNode::up(plugin).await.err().unwrap());
    let silent = EmbeddedPlugin::new("sh -c 'echo no hardware here; false'", RESOURCE, 4);
    let silent = why(EmbeddedPlugin { wait: impatient, ..silent }).await;
    assert!(silent.contains("the plugin advertised no device of test.example/fixture"), "{silent}");
    assert!(silent.contains("\n  no hardware here"), "{silent}");
    let fewer = EmbeddedPlugin { count: 5, ..plugin(Defect::Nothing) };
    let fewer = EmbeddedPlugin { command: fewer.command.replace("{count}", "4"), ..fewer };
    let fewer = why(fewer).await;
    assert!(fewer.contains("advertises 4 devices of test.example/fixture, not 5 (--count)"), "{fewer}");
    let none = why(EmbeddedPlugin::new("true", RESOURCE, 0)).await;
    assert!(none.contains("a plugin without devices is not tested"), "{none}");
}

/// As one that has kubelet's folder compiled in: in a namespace of its own it sees the node's folder there, and the node its sockets.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_of_the_usual_folder_passes_in_a_namespace() {
    let anywhere = plugin(Defect::Nothing);
    let command = anywhere.command.replace("{plugins-dir}", "/var/lib/kubelet/device-plugins");
    assert_ne!(command, anywhere.command);
    let inside = EmbeddedPlugin { command, in_namespace: true, ..anywhere };
    let node = match EmbeddedNode::up(inside).await {
        Err(error) if format!("{error:#}").contains("no user and mount namespace") => {
            println!("skipped: {error:#}");
            assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "{error:#}");
            return;
        }
        node => node.unwrap(),
    };
    let names = [
        "Can schedule a pod that requires a device",
        "Keeps device plugin assignments after the device plugin has restarted",
        "Registers again when kubelet has removed the old sockets",
    ];
    let is_named = |name: &str| names.iter().any(|named| name.starts_with(named));
    let cases: Vec<_> = CASES.iter().filter(|case| is_named(case.name)).collect();
    let rows = run_embedded(&node, &cases, |_| {}).await;
    let passed = rows.iter().filter(|row| row.result == CaseResult::Passed).count();
    assert_eq!(passed, names.len(), "{}", failures(&rows));
}
