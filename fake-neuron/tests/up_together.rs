//! Several `fake-neuron up` and `down` at once below one root: one is at work, the others are refused and harm nothing.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use common::{differences, listing, modes, place, spec, up};
use fake_neuron::Machine;

fn fake_neuron(words: &[&str], root: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
    command.args(words).arg("--root").arg(root).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn is_refused(output: &Output, root: &Path) -> bool {
    let refusal = format!(
        "fake-neuron: root {} is being made or removed by another fake-neuron: wait for its end, or give another folder\n",
        root.display()
    );
    output.status.code() == Some(1) && String::from_utf8_lossy(&output.stderr) == refusal
}

#[test]
fn of_several_on_a_new_folder_one_makes_its_machine_whole() {
    const TYPES: [&str; 4] = ["trn1.32xlarge", "inf2.48xlarge", "trn2.48xlarge", "inf2.24xlarge"];
    let (_folder, root) = place();
    for _ in 0..5 {
        let started: Vec<Child> = TYPES
            .iter()
            .map(|name| fake_neuron(&["up", "--instance-type", name], &root).spawn().unwrap())
            .collect();
        let ended: Vec<Output> = started.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
        // One that comes when another has ended replaces its machine, as it would later.
        let made = ended.iter().filter(|output| output.status.success()).count();
        let refused = ended.iter().filter(|output| is_refused(output, &root)).count();
        assert!(made >= 1 && made + refused == TYPES.len(), "{ended:?}");
        let machine = Machine::open(&root).unwrap();
        let (_other_folder, alone) = place();
        Machine::builder(machine.instance_type()).counters(true).up(&alone).unwrap();
        let differ = differences(&modes(&root), &modes(&alone));
        // Who made the root is told in the marker alone.
        let differ: Vec<_> = differ.iter().filter(|line| !line.starts_with(".fake-neuron.json:")).collect();
        assert!(differ.is_empty(), "{differ:?}");
        machine.down().unwrap();
    }
}

#[test]
fn who_comes_while_another_is_at_work_is_refused_and_changes_nothing() {
    let (_folder, root) = place();
    fs::create_dir(&root).unwrap();
    let at_work = File::open(&root).unwrap();
    at_work.lock().unwrap();
    let words = ["up", "--instance-type", "inf2.xlarge"];
    assert!(is_refused(&fake_neuron(&words, &root).output().unwrap(), &root));
    assert!(listing(&root).is_empty());
    at_work.unlock().unwrap();
    let machine = up(&spec("inf2.xlarge"), &root).unwrap();
    let standing = modes(&root);
    at_work.lock().unwrap();
    assert!(is_refused(&fake_neuron(&["down"], &root).output().unwrap(), &root));
    assert!(is_refused(&fake_neuron(&words, &root).output().unwrap(), &root));
    assert_eq!(modes(&root), standing);
    at_work.unlock().unwrap();
    machine.down().unwrap();
}
