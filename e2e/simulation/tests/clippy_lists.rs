//! What would make a run depend on more than its seed is kept out of the crates that ask a `System` in a simulation, by their
//! `clippy.toml`: clippy reads the nearest one only, so that each has to say all of it. `core` asks for nothing, of `fake-neuron`
//! a simulation uses functions alone, and what `e2e/engine` simulates, its scenarios, compares outcomes and no hashes.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]
#![allow(clippy::disallowed_methods, reason = "a test reads the sources")]

use std::collections::BTreeSet;
use std::path::Path;

/// The crates whose code runs in a simulation.
const SIMULATED: [&str; 7] = [
    "runtime",
    "extender",
    "device-plugin",
    "testkit/simulated-cluster",
    "testkit/simulator",
    "testkit/fake-cluster",
    "e2e/simulation",
];
/// What is about the machine's own tasks, threads, time, files and random numbers; sockets stand in the lists as types or as methods.
const OF_THE_MACHINE: [&str; 10] = [
    "std::fs::",
    "tokio::fs::",
    "std::thread::",
    "std::time::",
    "std::path::",
    "jiff::",
    "tokio::task::spawn",
    "tokio::task::JoinSet::",
    "tokio_util::task::TaskTracker::spawn",
    "std::hash::RandomState",
];

fn kept_out(folder: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder).join("clippy.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let paths = text.split("path = \"").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned());
    paths.filter(|path| OF_THE_MACHINE.iter().any(|of| path.starts_with(of))).collect()
}

#[test]
fn every_simulated_crate_keeps_the_machine_out() {
    let all: BTreeSet<String> = SIMULATED.into_iter().flat_map(kept_out).collect();
    assert!(all.len() > 30, "the lists were not read: {all:?}");
    for folder in SIMULATED {
        let missing: Vec<_> = all.difference(&kept_out(folder)).cloned().collect();
        assert!(missing.is_empty(), "{folder}/clippy.toml lacks {missing:?}");
    }
}
