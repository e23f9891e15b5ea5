//! The same seed is the same run: in two processes, in two folders, and in a debug and an optimised build. What is wrong with a
//! command is told, with exit code 2.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};

use rstest::rstest;
use serde_json::{Value, json};

const PROGRAM: &str = env!("CARGO_BIN_EXE_neuron-e2e");
/// Names an optimised build of the program.
const OPTIMISED: &str = "NEURON_E2E_OPTIMISED";

fn simulate(program: impl AsRef<OsStr>, arguments: &[&str], folder: &Path) -> Output {
    Command::new(program).arg("simulate").args(arguments).current_dir(folder).output().unwrap()
}

/// Hash of the trace, and the number of pods that were placed. Nothing must be wrong.
fn hash(program: impl AsRef<OsStr>, arguments: &[&str], folder: &Path) -> (String, u64) {
    let failures = tempfile::tempdir().unwrap();
    let kept = ["--shrink-for", "0s", "--keep-failures", failures.path().to_str().unwrap()];
    let output = simulate(program, &[arguments, &kept].concat(), folder);
    assert!(output.status.success(), "{arguments:?}: {output:#?}");
    let row: Value = serde_json::from_slice(&output.stdout).unwrap();
    (row["hash"].to_string(), row["placed"].as_u64().unwrap())
}

#[rstest]
#[case::of_37("7", "2h", &[])]
#[case::of_34("8", "1h", &["--kubernetes", "1.34"])]
#[case::other_types("9", "1h", &["--nodes", "trn2.48xlarge=1,trn2.48xlarge:lnc1=1,inf1.24xlarge=1"])]
fn the_same_seed_is_the_same_run_in_another_process_folder_and_build(
    #[case] seed: &str,
    #[case] time: &str,
    #[case] others: &[&str],
) {
    let folder = tempfile::tempdir().unwrap();
    let run = [&["--seed", seed, "--profile", "chaos", "--for", time, "-o", "json"], others].concat();
    let here = hash(PROGRAM, &run, Path::new("."));
    assert!(here.1 > 10, "{here:?}");
    let other = std::env::var(OPTIMISED).unwrap_or_else(|_| {
        println!("skipped: the optimised build, which {OPTIMISED} would name");
        PROGRAM.to_owned()
    });
    for folder in [Path::new("."), folder.path()] {
        assert_eq!(hash(&other, &run, folder), here);
    }
}

#[test]
fn another_seed_is_another_run() {
    let of = |seed| hash(PROGRAM, &["--seed", seed, "--for", "10m", "-o", "json"], Path::new(".")).0;
    assert_ne!(of("6"), of("7"));
}

#[test]
fn the_same_plan_is_the_same_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = Path::new(env!("CARGO_MANIFEST_DIR")).join("simulation/plans");
    let mut plans: Vec<_> = std::fs::read_dir(plan).unwrap().map(|entry| entry.unwrap().path()).collect();
    plans.sort();
    let replay = ["--replay", plans[0].to_str().unwrap(), "-o", "json"];
    assert_eq!(hash(PROGRAM, &replay, Path::new(".")), hash(PROGRAM, &replay, folder.path()));
}

#[rstest]
#[case::profile(&["--profile", "wild"], "there is no profile \"wild\"; there are calm, churn and chaos")]
#[case::form(&["--nodes", "trn1.32xlarge"], "is not TYPE=NUMBER")]
#[case::machine(&["--nodes", "trn1.31xlarge=1"], "did you mean one of trn1.32xlarge")]
#[case::time(&["--for", "24"], "24")]
#[case::too_long(&["--for", "18446744073709551615s"], "the longest is 3650 days")]
#[case::no_time(&["--for", "0s"], "nothing happens in no time; the shortest is 1s")]
#[case::within(&["--seeds", "0..2", "--within", "0s"], "nothing happens in no time")]
#[case::trace_from(&["--trace", "t.txt", "--trace-from", "1h", "--for", "1m"], "nothing is traced from 3600s on: --for ends the run after 60s")]
#[case::late_kill(&["--seeds", "0..1", "--kill", "extender:999999999", "--for", "60s"], "kills changed nothing of any seed: extender was not killed")]
#[case::seeds(&["--seeds", "a..b"], "\"a..b\" is not A..B, two numbers such as 0..300")]
#[case::part(&["--kill", "extendr:5"], "there is no part \"extendr\"; there is extender, plugin/n1 to plugin/n3")]
#[case::part_of_seeds(&["--kill", "plugin:5", "--seeds", "0..3"], "there is no part \"plugin\"")]
#[case::poll(&["--kill", "extender:0"], "is not PART:POLL")]
#[case::violation(&["--unknown", "NOSUCH"], "no such violation is known; known is none")]
#[case::replay_for(&["--replay", "no-such-plan.json", "--for", "1h"], "cannot be used with '--for <TIME>'")]
#[case::replay_nodes(&["--replay", "no-such-plan.json", "--nodes", "trn1.2xlarge=1"], "cannot be used with '--nodes")]
#[case::replay_profile(&["--replay", "no-such-plan.json", "--profile", "calm"], "cannot be used with '--profile")]
#[case::replay_version(&["--replay", "no-such-plan.json", "--kubernetes", "1.34"], "cannot be used with '--kubernetes")]
#[case::no_plan(&["--replay", "no-such-plan.json"], "the plan no-such-plan.json cannot be run: cannot read it: No such file")]
fn what_is_wrong_with_a_command_is_told(#[case] arguments: &[&str], #[case] told: &str) {
    let output = simulate(PROGRAM, arguments, Path::new("."));
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(told), "{text}");
}

#[rstest]
#[case::other_version(r#"{"v": 99}"#, "this plan is of version 99; this release runs version 2")]
#[case::trace(
    "neuron-e2e trace v2 of ..\n",
    "it is a trace (v2; this release writes v1), which tells what happened"
)]
#[case::no_plan("pods: 3", "this is no plan: expected")]
#[case::field(r#"{"v": 2}"#, "this is no plan: missing field `seed` at line 1")]
#[case::part(&with(r#"{"at": 5, "do": "kill", "part": "extendr", "on": "control"}"#), "event at 5: there is no \"extendr\" at control")]
#[case::device(&with(r#"{"at": 5, "do": "device", "node": 0, "device": 99, "fault": "lost", "seconds": 1}"#), "n1 has no device 99; it has 0 to 15")]
#[case::machine(&with(r#"{"at": 5, "do": "device", "node": 0, "device": 99, "fault": "lost", "seconds": 1}"#).replace("trn1.32", "trn1.31"), "trn1.31xlarge")]
#[case::rate(&with("").replace(r#""api": {}"#, r#""api": {"lost": 1.5}"#), "settings: lost is 1.5; a rate is 0 to 1")]
#[case::rate_of_links(&with("").replace(r#""linkLoss": 0"#, r#""linkLoss": 2"#), "settings: linkLoss is 2; a rate is 0 to 1")]
#[case::setting(&with("").replace("\"poll\"", "\"bindDeadlin\""), "the programs have no \"bindDeadlin\"; there is apiTimeout, bindDeadline")]
fn a_plan_that_cannot_be_run_is_misuse(#[case] plan: &str, #[case] told: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.json"), plan).unwrap();
    let output = simulate(PROGRAM, &["--replay", "plan.json"], folder.path());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the plan plan.json cannot be run") && text.matches(told).count() == 1, "{text}");
}

#[test]
fn kills_are_added_to_a_plan_and_counted_and_a_trace_says_what_it_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plan.json"), with("")).unwrap();
    let run = ["--replay", "plan.json", "--trace", "trace.txt"];
    let counts = |arguments: &[&str]| {
        let output = simulate(PROGRAM, &[&run, arguments, &["-o", "json"]].concat(), folder.path());
        let row: Value = serde_json::from_slice(&output.stdout).unwrap();
        (row["kills"].clone(), row["faults"]["kill plugin"].clone())
    };
    assert_eq!(counts(&[]), (json!(0), Value::Null));
    assert_eq!(counts(&["--kill", "plugin/n1:20"]), (json!(1), json!(1)));
    let never = ["--kill", "plugin/n1:20", "--kill", "extender:999999999"];
    let output = simulate(PROGRAM, &[&run[..2], &never].concat(), folder.path());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("extender was not killed before its poll 999999999: it had "), "{text}");
    assert_eq!(text.matches("was not killed").count(), 1, "{text}");
    let trace = std::fs::read_to_string(folder.path().join("trace.txt")).unwrap();
    let told = "neuron-e2e trace v1 of neuron-e2e simulate --replay plan.json --kill plugin/n1:20";
    assert_eq!(trace.lines().next(), Some(told));
    assert!(trace.contains("plugin/n1: is killed"), "{trace}");
    let output = simulate(PROGRAM, &["--replay", "trace.txt"], folder.path());
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(
        text.contains("the plan trace.txt cannot be run: it is a trace (v1; this release writes v1)"),
        "{text}"
    );
}

/// A plan of one node in which this happens.
fn with(event: &str) -> String {
    format!(
        r#"{{"v": 2, "seed": 1, "kubernetes": "1.37", "seconds": 60, "nodes": [{{"machine": "trn1.32xlarge"}}],
        "settings": {{"linkMilliseconds": [0, 0], "linkLoss": 0, "api": {{}}, "restartMilliseconds": [1, 1], "seededOrder": true,
        "statusSeconds": 1, "adversarial": false, "programs": {{"poll": 1000}}}}, "events": [{event}]}}"#
    )
}
