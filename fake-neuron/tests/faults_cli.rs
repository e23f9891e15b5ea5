//! `fake-neuron fault`, `load` and `record` as a user runs them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use common::{modes, place, read, sysfs};
use fake_neuron::Machine;
use fake_neuron::fault::KERNEL_LOG;
use fake_neuron::record::Fixture;
use rstest::rstest;

fn fake_neuron() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
    command.env_remove("NEURON_ROOT").env_remove("FAKE_NEURON_ROOT");
    command
}

fn run(root: &Path, arguments: &[&str]) -> Output {
    let arguments = arguments.iter().map(|part| part.replace("ROOT", root.to_str().unwrap()));
    fake_neuron().args(arguments).env("FAKE_NEURON_ROOT", root).output().unwrap()
}

fn report(output: &Output, root: &Path) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(root.to_str().unwrap(), "ROOT");
    format!(
        "exit code {}\n--- stdout\n{}--- stderr\n{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}

#[rstest]
#[case("no_such_fault", &["fault", "device-los", "--device", "3"])]
#[case("no_such_device", &["fault", "device-lost", "--device", "16"])]
#[case("no_such_counter", &["fault", "ecc", "--device", "3", "--counter", "ecc"])]
#[case("no_such_kind", &["fault", "kernel-error", "--device", "3", "--kind", "FIRE"])]
#[case("no_such_time", &["fault", "reset", "--device", "3", "--after", "soon"])]
#[case("no_such_chance", &["fault", "reset", "--device", "3", "--probability", "2"])]
#[case("nothing_to_hang", &["fault", "hung-read"])]
#[case("no_such_id", &["fault", "clear", "7"])]
#[case("nothing_to_clear", &["fault", "clear"])]
#[case("no_faults_file", &["fault", "apply", "ROOT/none.json"])]
#[case("no_such_profile", &["load", "busy"])]
#[case("no_fixture", &["up", "--from", "ROOT/none.json", "--root", "ROOT"])]
#[case("fixture_and_type", &["up", "--from", "a.json", "--instance-type", "inf2.xlarge", "--root", "ROOT"])]
#[case("help_fault", &["fault", "--help"])]
#[case("help_fault_reset", &["fault", "reset", "--help"])]
#[case("help_record", &["record", "--help"])]
fn the_program_says(#[case] name: &str, #[case] arguments: &[&str]) {
    let (_folder, root) = place();
    Machine::builder("trn1.32xlarge").up(&root).unwrap();
    let before = modes(&root);
    // Help shows the environment, which differs from run to run.
    let said = report(&run(&root, arguments), &root);
    insta::assert_snapshot!(format!("says_{name}"), said);
    assert!(modes(&root) == before);
}

#[test]
fn a_fault_without_a_machine_is_refused() {
    let (_folder, root) = place();
    let said = report(&run(&root, &["fault", "reset", "--device", "0"]), &root);
    assert_eq!(
        said,
        "exit code 1\n--- stdout\n--- stderr\nfake-neuron: root ROOT holds no fake machine: make one with `fake-neuron up`\n"
    );
}

#[test]
fn the_root_is_the_one_that_the_machine_was_made_under() {
    let (_folder, root) = place();
    Machine::builder("trn1.2xlarge").up(&root).unwrap();
    let list = |variables: &[(&str, &Path)]| {
        let mut command = fake_neuron();
        command.args(["fault", "list"]).envs(variables.iter().copied());
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let nowhere = Path::new("/nowhere");
    assert_eq!(list(&[("NEURON_ROOT", &root)]).0, Some(0));
    assert_eq!(list(&[("NEURON_ROOT", nowhere), ("FAKE_NEURON_ROOT", &root)]).0, Some(0));
    let (code, said) = list(&[]);
    assert!(code == Some(2) && said.contains("--root <DIR>"), "{said}");
}

/// The text with the moments of the faults replaced by words.
fn without_times(text: &str, root: &Path) -> String {
    let faults = Machine::open(root).unwrap().faults().unwrap().faults;
    faults.iter().fold(text.to_owned(), |text, fault| {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(fault.at).unwrap()).unwrap();
        text.replace(&fault.at.to_string(), "MILLISECONDS")
            .replace(&format!("{at:.0}"), "THE TIME IT STRUCK..")
    })
}

#[test]
fn faults_are_struck_listed_and_cleared() {
    let (_folder, root) = place();
    Machine::builder("trn2.48xlarge").up(&root).unwrap();
    let before = modes(&root);
    let mut said = String::new();
    for arguments in [
        &["fault", "device-lost", "--device", "3"][..],
        &["fault", "unhealthy", "--device", "4", "--components", "hbm,link_efa"],
        &["fault", "link-down", "--device", "5", "--other", "6"],
        &["fault", "core-held", "--core", "9", "--pid", "4711"],
        &["fault", "core-held", "--core", "9", "--pid", "12"],
        &["fault", "kernel-error", "--device", "5", "--kind", "DMA_ERROR"],
        &["fault", "driver-unloaded", "--probability", "0", "--seed", "5"],
    ] {
        said += &format!("$ fake-neuron {}\n{}", arguments.join(" "), report(&run(&root, arguments), &root));
    }
    insta::assert_snapshot!("struck", said);
    let list = report(&run(&root, &["fault", "list"]), &root);
    let json = report(&run(&root, &["fault", "list", "-o", "json"]), &root);
    insta::assert_snapshot!("list_table", without_times(&list, &root));
    insta::assert_snapshot!("list_json", without_times(&json, &root));
    let cleared = report(&run(&root, &["fault", "clear", "2"]), &root);
    assert_eq!(cleared, "exit code 0\n--- stdout\nfault 2 is lifted\n--- stderr\n");
    let all = report(&run(&root, &["fault", "clear"]), &root);
    assert_eq!(all, "exit code 0\n--- stdout\n3 faults are lifted\n--- stderr\n");
    let mut after = modes(&root);
    after.remove(KERNEL_LOG);
    assert!(after == before);
}

#[test]
fn a_file_of_faults_is_carried_out_in_time() {
    let (_folder, root) = place();
    Machine::builder("trn1.32xlarge").up(&root).unwrap();
    let file = root.with_file_name("faults.json");
    let text = r#"[{"fault": "reset", "device": 1, "for": "200ms"}, {"fault": "wrong-lnc", "lnc": 2, "after": "100ms"}]"#;
    std::fs::write(&file, text).unwrap();
    let output = run(&root, &["fault", "apply", file.to_str().unwrap()]);
    insta::assert_snapshot!("applied", report(&output, &root));
    assert_eq!(sysfs(&root, 1, "reset"), "1\n");
    assert_eq!(read(&root, "opt/aws/neuron/logical_nc_config"), "NEURON_LOGICAL_NC_CONFIG=2");
}

#[test]
fn a_fault_that_is_ended_early_is_lifted() {
    let (_folder, root) = place();
    Machine::builder("trn1.32xlarge").up(&root).unwrap();
    let before = modes(&root);
    let mut command = fake_neuron();
    command.args(["fault", "device-lost", "--device", "2", "--for", "1h", "--root"]).arg(&root);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "fault 1, device-lost (device 2), is in force for 1h");
    assert!(!root.join("dev/neuron2").exists());
    assert!(Command::new("kill").arg(child.id().to_string()).status().unwrap().success());
    assert_eq!(lines.next().unwrap().unwrap(), "ended early: what was struck is lifted");
    assert!(child.wait().unwrap().success());
    assert!(modes(&root) == before);
}

#[test]
fn a_fault_whose_program_was_killed_ends_all_the_same() {
    let (_folder, root) = place();
    Machine::builder("trn1.32xlarge").up(&root).unwrap();
    let before = modes(&root);
    let killed = |lasts: &str| {
        let mut command = fake_neuron();
        command.args(["fault", "device-lost", "--device", "2", "--for", lasts, "--root"]).arg(&root);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap()).lines().next().unwrap().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        said
    };
    assert_eq!(killed("1h"), "fault 1, device-lost (device 2), is in force for 1h");
    let standing = Machine::open(&root).unwrap().faults().unwrap().faults;
    let until = standing[0].until.unwrap();
    assert_eq!(until, standing[0].at + 3_600_000);
    let until = jiff::Timestamp::from_millisecond(i64::try_from(until).unwrap()).unwrap();
    let listed = String::from_utf8(run(&root, &["fault", "list"]).stdout).unwrap();
    assert!(listed.lines().last().unwrap().ends_with(&format!("{until:.0}")), "{listed}");
    run(&root, &["fault", "clear"]);

    killed("500ms");
    let end = std::time::Instant::now() + std::time::Duration::from_secs(10);
    while String::from_utf8(run(&root, &["fault", "list"]).stdout).unwrap().contains("device-lost") {
        assert!(std::time::Instant::now() < end, "it never ends");
    }
    assert!(modes(&root) == before);
}

#[test]
fn a_load_needs_counters() {
    let (_folder, root) = place();
    Machine::builder("trn1.2xlarge").up(&root).unwrap();
    let said = report(&run(&root, &["load", "training"]), &root);
    assert_eq!(
        said,
        "exit code 1\n--- stdout\n--- stderr\nfake-neuron: the machine under ROOT was made without counters: make it with `fake-neuron up`\n"
    );
}

#[test]
fn a_capture_is_shown_and_written_only_when_told() {
    let (_folder, root) = place();
    Machine::builder("trn2.48xlarge").driver("2.24").counters(true).up(&root).unwrap();
    let folder = root.with_file_name("captures");
    std::fs::create_dir(&folder).unwrap();
    let to = ["record", "--root", "ROOT", "--output", folder.to_str().unwrap()];
    let shown = report(&run(&root, &to), &root).replace(folder.to_str().unwrap(), "CAPTURES");
    insta::assert_snapshot!("record", shown);
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);

    let json = run(&root, &[&to[..], &["-o", "json", "--yes"]].concat());
    let shown: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&shown["instanceType"], &shown["identityKept"]), (&"trn2.48xlarge".into(), &false.into()));
    let file = folder.join("trn2.48xlarge-2.24.7.0.json");
    assert_eq!(shown["file"], file.to_str().unwrap());
    assert_eq!(Fixture::read(&file).unwrap().driver_version, "2.24.7.0");

    let again = run(&root, &[&to[..], &["--yes"]].concat());
    assert_eq!(again.status.code(), Some(1));
    let refused = String::from_utf8(again.stderr).unwrap();
    assert_eq!(
        refused,
        format!(
            "fake-neuron: {} is there already: give --output another file, or remove it\n",
            file.display()
        )
    );

    let replayed = root.with_file_name("replayed");
    let up = run(&replayed, &["up", "--from", file.to_str().unwrap(), "--root", "ROOT"]);
    assert!(report(&up, &replayed).contains("trn2.48xlarge (i-"), "{}", report(&up, &replayed));
    assert_eq!(sysfs(&replayed, 13, "connected_devices"), sysfs(&root, 13, "connected_devices"));
}
