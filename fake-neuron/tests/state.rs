//! The list of processes that use a machine.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use std::fs;

use fake_neuron::state::{NeuronProcess, processes, write_processes};

#[test]
fn what_is_written_is_read_and_nothing_else_stays() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path();
    assert_eq!(processes(root).unwrap(), []);
    let process = NeuronProcess {
        pid: 123,
        command: "python train.py".to_owned(),
        devices: vec![0, 1],
        cores: vec![0, 127],
    };
    write_processes(root, std::slice::from_ref(&process)).unwrap();
    let file = root.join(".fake-neuron/processes.json");
    assert_eq!(
        fs::read_to_string(&file).unwrap(),
        "[{\"pid\":123,\"command\":\"python train.py\",\"devices\":[0,1],\"cores\":[0,127]}]\n"
    );
    assert_eq!(processes(root).unwrap(), [process]);
    write_processes(root, &[]).unwrap();
    assert_eq!(processes(root).unwrap(), []);
    assert_eq!(fs::read_dir(root).unwrap().count(), 1);
}

#[test]
fn a_malformed_list_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(".fake-neuron/processes.json");
    fs::create_dir(file.parent().unwrap()).unwrap();
    fs::write(&file, "[{\"pid\": 1}]").unwrap();
    let said = processes(folder.path()).unwrap_err().to_string();
    let expected = "is no list of processes: missing field `command` at line 1 column 11; remove it";
    assert_eq!(said, format!("{} {expected}", file.display()));
}
