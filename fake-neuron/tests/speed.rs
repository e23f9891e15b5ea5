//! What the largest machine takes of a processor, held against `cp -a` of the same files: seconds would say how fast and how busy the
//! machine of the test is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use common::place;
use fake_neuron::Machine;
use rstest::rstest;

const TYPE: [&str; 2] = ["--instance-type", "trn2.48xlarge"];

/// How often each is measured; the least counts, since others only add to it.
const TRIES: usize = 3;

/// The program's time on a processor, its own and the kernel's for it and its children.
fn processor_time(program: &str, arguments: &[&str]) -> Result<Duration, String> {
    // Of bash, whose times those of what a program has waited for are part of.
    let script = "TIMEFORMAT='%3U %3S'; time \"$0\" \"$@\" >&-";
    let mut command = Command::new("bash");
    command.args(["-c", script, program]).args(arguments).env("LC_ALL", "C").env_remove("NEURON_ROOT");
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    if !output.status.success() {
        return Err(said);
    }
    Ok(said.split_whitespace().map(|seconds| Duration::from_secs_f64(seconds.parse().unwrap())).sum())
}

/// The least time of several tries, each of which gets a folder of its own below `folder`.
fn least(folder: &Path, run: impl Fn(&str) -> Result<Duration, String>) -> Result<Duration, String> {
    let tries = (0..TRIES).map(|number| {
        let place = folder.join(number.to_string());
        let taken = run(place.to_str().unwrap());
        // Memory is not endless.
        let _ = std::fs::remove_dir_all(place);
        taken
    });
    Ok(tries.collect::<Result<Vec<_>, _>>()?.into_iter().min().unwrap())
}

/// A build without optimisation takes 1.3 times as long as `cp -a` for `up` and 1.7 times for `exec`, which also starts a program.
#[rstest]
#[case::up(&["up"])]
#[case::exec(&["exec"])]
fn the_largest_machine_takes_less_than_three_copies_of_it(#[case] command: &[&str]) {
    let (folder, root) = place();
    Machine::builder(TYPE[1]).counters(true).up(&root).unwrap();
    let copies = least(folder.path(), |place| processor_time("cp", &["-a", root.to_str().unwrap(), place]));
    let copy = copies.unwrap();
    let taken = least(folder.path(), |place| {
        let end: &[&str] = if command == ["exec"] { &["--", "true"] } else { &["--root", place] };
        processor_time(env!("CARGO_BIN_EXE_fake-neuron"), &[command, &TYPE, end].concat())
    });
    match taken {
        Ok(taken) => assert!(taken < copy * 3, "{command:?} took {taken:?}, a copy {copy:?}"),
        Err(said) if said.contains("namespaces are not permitted") => {
            assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "{said}");
            println!("skipped: {said}");
        }
        Err(said) => panic!("{said}"),
    }
}
