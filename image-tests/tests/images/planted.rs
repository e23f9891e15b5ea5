//! The shipped programs have none of the bugs that are planted to prove the simulator (docs/testing.md).

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::docker::can_run;

/// The crates that the programs are made of.
const SOURCES: [&str; 4] = ["extender/src", "device-plugin/src", "runtime/src", "core/src"];

/// The names by which the sources ask for planted bugs.
fn names() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<_> = SOURCES.iter().map(|folder| root.join(folder)).collect();
    let mut names = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = fs::read_to_string(&path).unwrap();
                let asked = text.split("is_planted(\"").skip(1).filter_map(|rest| rest.split_once('"'));
                names.extend(asked.map(|(name, _)| name.to_owned()).filter(|name| name.contains('-')));
            }
        }
    }
    names
}

/// The image's files, as a tar archive.
fn files(image: &str) -> Vec<u8> {
    let docker = |arguments: &[&str]| {
        let output = Command::new("docker").args(arguments).output().unwrap();
        assert!(output.status.success(), "docker {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let created = String::from_utf8(docker(&["create", &format!("{image}:dev")])).unwrap();
    let files = docker(&["export", created.trim()]);
    docker(&["rm", created.trim()]);
    files
}

#[test]
fn the_shipped_programs_know_no_planted_bug() {
    let names = names();
    assert!(names.len() >= 16, "{names:?}");
    for image in ["neuron-extender", "neuron-device-plugin", "fake-neuron", "neuron-workload"] {
        if !can_run(image) {
            return;
        }
        let files = files(image);
        let has = |text: &str| files.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        // Of the command line, which is in every program.
        assert!(has("--version") || has("unexpected argument"), "{image}: this is no program");
        let planted: Vec<&String> = names.iter().filter(|name| has(name)).collect();
        assert!(planted.is_empty(), "{image} was built with --cfg planted: {planted:?}");
    }
}
