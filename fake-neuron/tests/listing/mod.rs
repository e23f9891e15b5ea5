//! What every test of `neuron-ls` needs: short ways to run it and to say who has devices open.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// The program under its other name, reading the machine under `root`.
pub(crate) fn neuron_ls(root: &Path) -> Command {
    let link = root.with_file_name("neuron-ls");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_fake-neuron"), &link).unwrap();
    }
    let mut command = Command::new(link);
    for variable in ["NEURON_ROOT", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE"] {
        command.env_remove(variable);
    }
    command.env("FAKE_NEURON_ROOT", root);
    command
}

/// What it prints, which must be all that it says.
pub(crate) fn printed(root: &Path, flags: &[&str]) -> String {
    stdout(&neuron_ls(root).args(flags).output().unwrap())
}

pub(crate) fn stdout(output: &Output) -> String {
    assert_eq!((output.status.code(), String::from_utf8_lossy(&output.stderr).as_ref()), (Some(0), ""));
    String::from_utf8(output.stdout.clone()).unwrap()
}

pub(crate) fn devices(root: &Path, flags: &[&str]) -> Vec<Value> {
    serde_json::from_str(&printed(root, flags)).unwrap()
}

/// Says who has devices open, as the part that answers opens does.
pub(crate) fn write_processes(root: &Path, processes: &Value) {
    fs::create_dir_all(root.join(".fake-neuron")).unwrap();
    fs::write(root.join(".fake-neuron/processes.json"), processes.to_string()).unwrap();
}
