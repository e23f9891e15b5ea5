//! The program as a user runs it: what it prints, and how it ends.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use neuron_e2e_engine::scenario::{CatalogSource, library};
use serde_json::Value;

fn neuron_e2e(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_neuron-e2e")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn it_says_its_version() {
    let output = neuron_e2e(&["--version"]);
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stdout), concat!("neuron-e2e ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn an_unknown_scenario_is_misuse() {
    for arguments in [["run", "documented-core-s"].as_slice(), &["documented-core-s"]] {
        let output = neuron_e2e(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(
            text(&output.stderr),
            "neuron-e2e: there is no scenario \"documented-core-s\"; `neuron-e2e list` shows them\n"
        );
        assert_eq!(text(&output.stdout), "");
    }
}

#[test]
fn a_scenario_is_run_drawn_and_counted() {
    let output = neuron_e2e(&["run", "documented-cores"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.contains("asks-two: cores 2-3 on n1"), "{shown}");
    assert!(shown.contains("[ 0 bb]--[ 1 aa]--[ 2 ..]"), "{shown}");
    assert_eq!(shown.lines().last(), Some("1 passed, 0 failed"));
}

#[test]
fn json_has_every_field_of_a_row() {
    let output = neuron_e2e(&["documented-devices", "nine-cores", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["scenario"].as_str().unwrap()).collect();
    assert_eq!(names, ["documented-devices", "nine-cores"]);
    for row in &rows {
        let fields: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(fields, ["about", "failures", "nodes", "outcome", "passed", "scenario", "seconds"]);
        assert_eq!((&row["passed"], &row["failures"]), (&Value::Bool(true), &Value::Array(Vec::new())));
        assert_eq!(row["outcome"]["version"], 1);
    }
    assert_eq!(rows[1]["nodes"][0], "inf1.6xlarge");
    assert_eq!(
        rows[0]["outcome"]["pods"]["asks-two"]["containers"]["main"]["env"]["AWS_NEURON_VISIBLE_DEVICES"],
        "2,3"
    );
}

#[test]
fn the_list_is_json_too() {
    let output = neuron_e2e(&["list", "-o", "json"]);
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let scenarios = library::all(&CatalogSource::default()).unwrap();
    assert_eq!(rows.len(), scenarios.len());
    assert_eq!(rows[0]["scenario"], scenarios[0].name.as_str());
    assert_eq!(rows[0]["about"], scenarios[0].about.as_str());
}

#[test]
fn a_reader_that_has_gone_ends_a_command_quietly() {
    for arguments in [["list"].as_slice(), &["list", "-o", "json"], &["run", "nine-cores"], &["--help"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut program = Command::new(env!("CARGO_BIN_EXE_neuron-e2e"));
        let output = program.args(arguments).stdout(writer).output().unwrap();
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {told}");
        assert!(!told.contains("panic"), "{arguments:?}: {told}");
    }
}

#[test]
fn nobody_who_reads_progress_does_not_matter() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut program = Command::new(env!("CARGO_BIN_EXE_neuron-e2e"));
    let output = program.args(["run", "nine-cores", "-o", "json"]).stderr(writer).output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(serde_json::from_slice::<Vec<Value>>(&output.stdout).unwrap().len(), 1);
}

#[test]
fn what_only_the_embedded_cluster_can_do_is_refused_on_kind() {
    for flags in [["--seed", "0"].as_slice(), &["--adversarial"], &["--hostile"], &["--jobs", "4"]] {
        let output = neuron_e2e(&[&["run", "--cluster", "kind"], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        let flag = flags[0].replace("hostile", "adversarial");
        assert!(said.contains(&format!("{flag} works with --cluster embedded only")), "{said}");
    }
}

#[test]
fn the_node_image_is_the_variables_unless_that_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    for program in ["docker", "kind", "kubectl"] {
        // There, but with no image, and none can be pulled.
        let path = folder.path().join(program);
        std::fs::write(&path, "#!/bin/sh\n[ \"$1\" = version ] && echo kind v0.33.0\n").unwrap();
        std::fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    }
    for command in [
        "run --cluster kind",
        "fuzz --cluster kind",
        "conformance",
        "bench scheduler",
        "doctor",
        "cluster up --nodes inf2.xlarge",
    ] {
        for (variable, image) in [("", "kindest/node:v1.34"), ("mine:1", "mine:1 is not here")] {
            let mut program = Command::new(env!("CARGO_BIN_EXE_neuron-e2e"));
            program
                .args(command.split(' '))
                .env("PATH", folder.path())
                .env("NEURON_E2E_NODE_IMAGE", variable);
            let output = program.output().unwrap();
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(said.contains(&format!("node image: {image}")), "{command}: {said}");
        }
    }
}
