//! The program as a user runs it: what it prints, and how it ends.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use neuron_e2e_engine::fuzz::plan::Plan;
use neuron_e2e_engine::fuzz::{comparable, generate};
use neuron_e2e_engine::scenario::{CatalogSource, library};
use rstest::rstest;
use serde_json::{Value, json};
use tempfile::TempDir;

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

#[rstest]
#[case::a_typing_error(
    "documented-core-s",
    "there is no scenario \"documented-core-s\": did you mean one of documented-cores, documented-devices? \
     `neuron-e2e list` shows all"
)]
#[case::a_name_of_before(
    "restart-amid-forty",
    "there is no scenario \"restart-amid-forty\": did you mean one of restart-during-forty, \
     restart-real-during-forty, restart-at-rest? `neuron-e2e list` shows all"
)]
#[case::like_nothing("xyzzy", "there is no scenario \"xyzzy\"; `neuron-e2e list` shows all")]
#[case::of_the_other_tier(
    "--tier=faults nine-cores",
    "scenario \"nine-cores\" is of tier placement; leave --tier out, or give --tier placement"
)]
#[case::a_file_that_is_not_there(
    "no-such.yaml",
    "scenario file no-such.yaml cannot be read: No such file or directory (os error 2)"
)]
#[case::a_file_with_another_ending(
    "Cargo.toml",
    "Cargo.toml is no scenario file: the name of one ends in .yaml"
)]
#[case::a_catalog_that_is_not_there(
    "nine-cores --catalog no-such.json",
    "catalog file no-such.json cannot be read: No such file or directory (os error 2)"
)]
fn what_cannot_be_found_is_misuse(#[case] arguments: &str, #[case] expected: &str) {
    let arguments: Vec<&str> = arguments.split(' ').collect();
    for arguments in [[&["run"], arguments.as_slice()].concat(), arguments] {
        let output = neuron_e2e(&arguments);
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(text(&output.stderr), format!("neuron-e2e: {expected}\n"));
        assert_eq!(text(&output.stdout), "");
    }
}

/// Writes a file into a folder of its own; both are gone when this is dropped.
fn file(name: &str, contents: &str) -> (TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, contents).unwrap();
    (folder, path.display().to_string())
}

#[rstest]
#[case::a_manifest(
    "apiVersion: v1\nkind: Pod\n",
    "unknown field `apiVersion`, expected one of `about`, `nodes`, "
)]
#[case::a_list("- apply: []\n", "the file is not a mapping")]
#[case::nothing("", "the file is not a mapping")]
#[case::no_yaml("about: [", "line 1 column 8")]
#[case::a_step_of_before(
    "about: x\nnodes: [{type: inf2.xlarge}]\nsteps: [{amid: {bound: 1, apply: [], steps: []}}]\n",
    "step `amid` is called `during` now"
)]
fn a_file_that_is_no_scenario_is_misuse(#[case] contents: &str, #[case] expected: &str) {
    let (_folder, path) = file("mine.yaml", contents);
    let output = neuron_e2e(&["run", &path]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with(&format!("neuron-e2e: scenario file {path}: scenario mine: ")), "{said}");
    assert_eq!(said.matches(expected).count(), 1, "{said}");
}

#[test]
fn a_scenario_file_is_run_as_those_in_the_program_are() {
    let nine_cores = include_str!("../scenarios/nine-cores.yaml");
    let (_folder, path) = file("my-own.yaml", nine_cores);
    let output = neuron_e2e(&["run", &path, "nine-cores", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&rows[0]["scenario"], &rows[1]["scenario"]), (&json!("nine-cores"), &json!("my-own")));
    assert_eq!(rows[0]["outcome"], rows[1]["outcome"]);
}

/// A type that there is not: eight devices in two rows, of which one, a row or all may be asked for.
fn new_type() -> String {
    let row = [[1, 2, 3, 4], [0, 2, 3, 5], [0, 1, 3, 6], [0, 1, 2, 7]];
    let other_row = [[0, 5, 6, 7], [1, 4, 6, 7], [2, 4, 5, 7], [3, 4, 5, 6]];
    let links = [row, other_row].concat();
    let new = json!({
        "instance_type": "trn9.24xlarge", "generation": "trn1", "devices": 8, "cores_per_device": 2,
        "default_lnc": 1, "device_memory_bytes": 34359738368_u64, "topology": "switch", "links": links,
        "driver_links": links, "device_counts": [1, 4, 8], "device_sets": "rows", "counts_documented": false,
        "vcpus": 96, "host_memory_gib": 384, "efa": null, "confidence": "low", "source": ["a test"],
    });
    json!({"types": [new]}).to_string()
}

#[test]
fn a_type_of_a_catalog_file_is_faked_placed_and_drawn() {
    let pod = |name: &str, devices: u8| {
        let limits = json!({"limits": {"aws.amazon.com/neuron": devices}});
        let container = json!({"name": "main", "image": "neuron-workload", "resources": limits});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}})
    };
    let scenario = json!({
        "about": "x", "nodes": [{"type": "trn9.24xlarge"}],
        "steps": [{"apply": [pod("row", 4), pod("two", 2)]}],
        "expect": {
            "row": {"phase": "Running", "got": {"main": {"devices": "0,1,2,3", "nodes": "0,1,2,3"}}},
            // A type that nobody knows would be given two that are linked.
            "two": {"phase": "Pending", "refusal": "Instance type trn9.24xlarge does not support requests for device: 2."},
        },
    });
    let (_scenarios, path) = file("mine.yaml", &scenario.to_string());
    let (_catalogs, catalog) = file("catalog.json", &new_type());
    let output = neuron_e2e(&["run", &path, "--catalog", &catalog]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{shown}{}", text(&output.stderr));
    assert!(shown.contains("[ 0 aa]  [ 1 aa]  [ 2 aa]  [ 3 aa]"), "{shown}");

    let listed = text(&neuron_e2e(&["list", "--catalog", &catalog]).stdout);
    assert!(listed.contains("every-type/trn9.24xlarge"), "{listed}");
}

#[test]
fn a_cluster_that_cannot_be_brought_up_is_told_apart_from_a_scenario_that_failed() {
    let (_folder, path) = file("mine.yaml", "about: x\nnodes: [{type: trn9.24xlarge}]\nsteps: []\n");
    let why = "bringing the embedded cluster up: machine of n1: instance type trn9.24xlarge is not known";
    let output = neuron_e2e(&["run", &path]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("NOT PREPARED") && shown.contains(why), "{shown}");
    assert_eq!(shown.lines().last(), Some("0 passed, 0 failed, 1 not prepared"));

    let output = neuron_e2e(&["run", &path, "-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(rows[0]["not_prepared"].as_str().unwrap().starts_with(why), "{rows:?}");
    assert_eq!((&rows[0]["passed"], &rows[0]["failures"]), (&json!(false), &json!([])));
}

#[test]
fn random_scenarios_are_of_the_types_of_a_catalog_file() {
    let (_catalogs, catalog) = file("catalog.json", &new_type());
    let catalog = CatalogSource::from_file(catalog.as_ref()).unwrap();
    let of_type = |plan: &Plan| plan.nodes.iter().any(|node| node.instance_type == "trn9.24xlarge");
    for make in [generate::plan, comparable::plan] {
        let plans = (0..20).map(|seed| make(seed, &catalog));
        assert!(plans.filter(of_type).count() > 10);
    }
    let output =
        neuron_e2e(&["fuzz", "--count", "2", "--catalog", &catalog.file().unwrap().display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn a_scenario_that_fails_says_why() {
    let wrong = "about: x\nnodes: [{type: inf2.xlarge}]\nsteps: [{stop: {part: kubelet, node: n2}}]\n";
    let (_folder, path) = file("wrong.yaml", wrong);
    let why = "step 1 (stop): \"n2\" is not a node of this scenario; it has n1 to n1";
    for flags in [[].as_slice(), &["-v"], &["-o", "json"]] {
        let output = neuron_e2e(&[&["run", &path], flags].concat());
        assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
        let shown = text(&output.stdout).replace("\\\"", "\"");
        assert!(shown.contains(why), "{flags:?}: {shown}");
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
fn the_first_command_prints_one_line_a_scenario_and_a_table_where_wanted() {
    let names = ["documented-cores", "documented-devices", "nine-cores"];
    let output = neuron_e2e(&names);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!((lines.len(), lines[3]), (4, "3 passed, 0 failed"), "{shown}");
    for (line, name) in lines.iter().zip(names) {
        assert!(line.starts_with("passed ") && line.ends_with(name), "{shown}");
    }
    let output = neuron_e2e(&[names.as_slice(), &["-v"]].concat());
    let shown = text(&output.stdout);
    assert!(
        shown.contains("what was placed where") && shown.contains("asks-two: cores 2-3 on n1"),
        "{shown}"
    );
    assert_eq!(shown.lines().last(), Some("3 passed, 0 failed"));
}

#[test]
fn help_explains_the_exit_codes() {
    for arguments in [["--help"].as_slice(), &["run", "--help"], &["fuzz", "-h"], &["doctor", "-h"]] {
        let shown = text(&neuron_e2e(arguments).stdout);
        assert!(shown.contains("Exit codes:\n  0  everything passed"), "{shown}");
    }
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
    for flags in [
        ["--seed", "0"].as_slice(),
        &["--adversarial"],
        &["--hostile"],
        &["--jobs", "4"],
        &["--kubernetes", "1.34"],
        &["--catalog", "x"],
    ] {
        let output = neuron_e2e(&[&["run", "--cluster", "kind"], flags].concat());
        assert_eq!(output.status.code(), Some(2));
        let said = text(&output.stderr);
        let flag = flags[0].replace("hostile", "adversarial");
        assert!(said.contains(&format!("{flag} works with --cluster embedded only")), "{said}");
    }
}

#[test]
fn the_version_on_kind_is_the_node_images() {
    for command in ["run", "fuzz"] {
        let output = neuron_e2e(&[command, "--cluster", "kind", "--kubernetes", "1.37"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(
            said.contains("the node image decides there, --node-image or NEURON_E2E_NODE_IMAGE"),
            "{said}"
        );
    }
}

#[test]
fn a_version_that_the_embedded_cluster_cannot_be_is_misuse() {
    for command in ["run", "fuzz"] {
        let output = neuron_e2e(&[command, "--kubernetes", "1.36"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("no Kubernetes version \"1.36\" here: 1.34 and 1.37 are"), "{said}");
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
        "conformance --cluster kind",
        "bench scheduler",
        "doctor",
        "cluster up --nodes inf2.xlarge",
    ] {
        for (variable, image) in [("", "kindest/node:v1.37"), ("mine:1", "mine:1 is not here")] {
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
