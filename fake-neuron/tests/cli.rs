//! The program as a user runs it: what it prints, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use common::{listing, place, read};
use rstest::rstest;

const NOBODY: u32 = 65534;

fn fake_neuron() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
    command.env_remove("NEURON_ROOT");
    command
}

/// Exit code, standard output and standard error, with `root` written as ROOT.
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
#[case("list", &["list"])]
#[case("list_aliases", &["list", "--aliases"])]
#[case("list_json", &["list", "--aliases", "-o", "json"])]
#[case("unknown_type", &["up", "--instance-type", "trn1.31xlarge", "--root", "ROOT"])]
#[case("impossible_lnc", &["up", "--instance-type", "inf2.xlarge", "--lnc", "2", "--root", "ROOT"])]
#[case("usage_lnc", &["up", "--instance-type", "trn2.3xlarge", "--lnc", "3", "--root", "ROOT"])]
#[case("usage_no_root", &["down"])]
#[case("down_of_nothing", &["down", "--root", "ROOT"])]
#[case("help_up", &["up", "--help"])]
fn the_program_says(#[case] name: &str, #[case] arguments: &[&str]) {
    let (_folder, root) = place();
    let arguments = arguments.iter().map(|part| part.replace("ROOT", root.to_str().unwrap()));
    let output = fake_neuron().args(arguments).output().unwrap();
    insta::assert_snapshot!(name, report(&output, &root));
    assert!(!root.exists());
}

#[test]
fn up_and_down_say_what_they_did() {
    let (folder, root) = place();
    let up = fake_neuron()
        .args(["up", "--instance-type", "trn2.48xlarge", "--lnc", "2"])
        .env("NEURON_ROOT", &root)
        .output()
        .unwrap();
    insta::assert_snapshot!("up", report(&up, &root));
    assert_eq!(read(&root, "opt/aws/neuron/logical_nc_config"), "NEURON_LOGICAL_NC_CONFIG=2");
    let down = fake_neuron().arg("down").arg("--root").arg(&root).output().unwrap();
    insta::assert_snapshot!("down", report(&down, &root));
    assert_eq!(listing(folder.path()).len(), 0);
}

/// A row of a type that the program does not know.
const ROW: &str = r#"{"instance_type": "trn9.4xlarge", "generation": "trn3", "devices": 2, "cores_per_device": 8,
    "default_lnc": 2, "device_memory_bytes": 1, "topology": "line", "links": [[1], [0]], "driver_links": [[1], [0]],
    "device_counts": [1, 2], "device_sets": "run", "counts_documented": false, "vcpus": 16, "host_memory_gib": 64,
    "efa": null, "confidence": "low", "source": []}"#;

/// Runs the program with this catalog file, which it sees as `ROOT/../catalog.json`.
fn with_catalog(root: &Path, text: &str, arguments: &[&str]) -> Output {
    let file = root.with_file_name("catalog.json");
    std::fs::write(&file, text).unwrap();
    fake_neuron().args(arguments).arg("--catalog").arg(file).output().unwrap()
}

#[test]
fn a_type_from_a_file_is_listed_and_made() {
    let (_folder, root) = place();
    let catalog = format!(r#"{{"types": [{ROW}]}}"#);
    let list = with_catalog(&root, &catalog, &["list"]);
    let listed = String::from_utf8(list.stdout).unwrap();
    assert!(listed.contains("trn9.4xlarge") && listed.contains("trn1.32xlarge"), "{listed}");

    let up = ["up", "--instance-type", "trn9.4xlarge", "--root", root.to_str().unwrap()];
    assert!(with_catalog(&root, &catalog, &up).status.success());
    assert_eq!(read(&root, "sys/devices/virtual/dmi/id/product_name"), "trn9.4xlarge\n");
    assert_eq!(read(&root, "sys/devices/virtual/neuron_device/neuron1/connected_devices"), "0\n");
}

#[rstest]
#[case::no_json(
    "types:",
    "is no catalog: expected ident at line 1 column 2; write it like core/data/instance-types.json: {\"types\": [..]}"
)]
#[case::another_key(
    r#"{"type": []}"#,
    "is no catalog: unknown field `type`, expected one of `_about`, `types`, `names` at line 1 column 7; write it like core/data/instance-types.json: {\"types\": [..]}"
)]
#[case::a_field_is_missing(&format!(r#"{{"types": [{}]}}"#, ROW.replace(r#""links": [[1], [0]], "driver"#, r#""driver"#)), ", row trn9.4xlarge: missing field `links`; write it like the rows of core/data/instance-types.json")]
#[case::no_name(
    r#"{"types": [{"devices": 2}]}"#,
    ", row types[0]: missing field `instance_type`; write it like the rows of core/data/instance-types.json"
)]
#[case::one_way_link(&format!(r#"{{"types": [{}]}}"#, ROW.replace(r#""links": [[1], [0]], "driver"#, r#""links": [[1], []], "driver"#)), ", row trn9.4xlarge: links of device 0 names device 1, but not the other way round")]
#[case::no_devices(&format!(r#"{{"types": [{}]}}"#, ROW.replace(r#""devices": 2"#, r#""devices": 0"#)), ", row trn9.4xlarge: devices is 0; it must be 1 to 64")]
fn a_bad_catalog_file_is_refused_with_its_row(#[case] text: &str, #[case] problem: &str) {
    let (_folder, root) = place();
    let root_text = root.to_str().unwrap();
    for arguments in [
        &["list"][..],
        &["up", "--instance-type", "trn9.4xlarge", "--root", root_text],
        &["node", "--node-name", "n1", "--root", root_text],
    ] {
        let refused = with_catalog(&root, text, arguments);
        let file = root.with_file_name("catalog.json");
        let file = file.display();
        let separator = if problem.starts_with(',') { "" } else { " " };
        assert_eq!(
            report(&refused, &root),
            format!("exit code 2\n--- stdout\n--- stderr\nfake-neuron: catalog {file}{separator}{problem}\n")
        );
    }
    assert!(!root.exists());
}

#[test]
fn a_catalog_file_that_is_not_there_is_refused() {
    let refused = fake_neuron().args(["list", "--catalog", "/nowhere/catalog.json"]).output().unwrap();
    assert_eq!(
        report(&refused, Path::new("ROOT")),
        "exit code 2\n--- stdout\n--- stderr\nfake-neuron: catalog /nowhere/catalog.json cannot be read: No such file or \
         directory (os error 2); give --catalog a file that can\n"
    );
}

#[test]
fn what_the_system_refused_is_said_once() {
    let (_folder, root) = place();
    std::fs::write(&root, "a file").unwrap();
    let below = root.join("below");
    let refused =
        fake_neuron().args(["up", "--instance-type", "inf2.xlarge", "--root"]).arg(below).output().unwrap();
    assert_eq!(
        report(&refused, &root),
        "exit code 1\n--- stdout\n--- stderr\nfake-neuron: cannot make ROOT/below: Not a directory (os error 20)\n"
    );
}

#[test]
fn without_root_rights_the_nodes_are_plain_files() {
    let (folder, root) = place();
    let mut up = fake_neuron();
    up.args(["up", "--instance-type", "inf2.24xlarge", "--root"]).arg(&root);
    if folder.path().metadata().unwrap().uid() == 0 {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(&root).unwrap();
        chown(&root, Some(NOBODY), Some(NOBODY)).unwrap();
        up.uid(NOBODY).gid(NOBODY);
    }
    let output = match up.output() {
        Ok(output) => output,
        Err(refused) => return skipped(&refused),
    };
    assert!(output.status.success(), "{}", report(&output, &root));
    let node = root.join("dev/neuron5").metadata().unwrap();
    assert!(node.file_type().is_file() && !node.file_type().is_char_device());
    assert_eq!(node.mode() & 0o777, 0o666);
}

fn skipped(refused: &std::io::Error) {
    let why = format!("nobody may not run the program here: {refused}");
    assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "NEURON_REQUIRE_FAKE is set, but {why}");
    println!("skipped: {why}");
}

#[test]
fn a_root_that_cannot_be_written_is_named() {
    let (folder, root) = place();
    std::fs::create_dir(&root).unwrap();
    std::fs::set_permissions(&root, std::fs::Permissions::from_mode(0o555)).unwrap();
    let mut up = fake_neuron();
    up.args(["up", "--instance-type", "inf2.xlarge", "--root"]).arg(&root);
    if folder.path().metadata().unwrap().uid() == 0 {
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        up.uid(NOBODY).gid(NOBODY);
    }
    let output = match up.output() {
        Ok(output) => output,
        Err(refused) => return skipped(&refused),
    };
    let said = "exit code 1\n--- stdout\n--- stderr\nfake-neuron: root ROOT cannot be written (Permission denied (os error 13)): \
                give a folder that you may write, such as /tmp/node1\n";
    assert_eq!(report(&output, &root), said);
    assert_eq!(listing(&root).len(), 0);
}
