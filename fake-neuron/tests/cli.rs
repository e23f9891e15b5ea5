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
        Err(refused) => {
            println!("skipped: nobody may not run the program here: {refused}");
            return;
        }
    };
    assert!(output.status.success(), "{}", report(&output, &root));
    let node = root.join("dev/neuron5").metadata().unwrap();
    assert!(node.file_type().is_file() && !node.file_type().is_char_device());
    assert_eq!(node.mode() & 0o777, 0o666);
}
