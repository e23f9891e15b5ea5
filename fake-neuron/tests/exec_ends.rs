//! How `fake-neuron exec` ends: exit codes and signals as under a shell, and nothing that stays.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod running;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rstest::rstest;
use running::{NOBODY, exec, is_possible, is_root, line, outside, skipped, started, text, until};
use rustix::process::{Pid, Signal, kill_process};

#[rstest]
#[case::its_own(&["sh", "-c", "exit 7"], 7, "")]
#[case::not_found(&["no-such-program"], 127, "fake-neuron: no-such-program: no such program on PATH\n")]
#[case::no_such_path(&["/no/such/program"], 127, "fake-neuron: /no/such/program: no such program\n")]
#[case::not_executable(&["/etc/passwd"], 126, "fake-neuron: /etc/passwd cannot be run: Permission denied (os error 13)\n")]
#[case::killed(&["sh", "-c", "kill -9 $$"], 137, "")]
#[case::terminated(&["sh", "-c", "kill $$"], 143, "")]
fn exit_codes_are_a_shells(#[case] words: &[&str], #[case] code: i32, #[case] message: &str) {
    if !is_possible() {
        return;
    }
    let before = outside();
    let output = exec("trn1.2xlarge", &["--"]).args(words).output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(code), message));
    assert_eq!(outside(), before);
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn is_gone(process: &str) -> bool {
    // One that has ended and that nobody has asked about is gone as well.
    let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    status
        .rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim_start().is_empty() || rest.trim_start().starts_with('Z'))
}

#[rstest]
#[case(Signal::TERM, "TERM")]
#[case(Signal::INT, "INT")]
#[case(Signal::HUP, "HUP")]
#[case(Signal::QUIT, "QUIT")]
#[case(Signal::USR1, "USR1")]
#[case(Signal::USR2, "USR2")]
fn signals_are_forwarded(#[case] signal: Signal, #[case] name: &str) {
    if !is_possible() {
        return;
    }
    let script = format!("trap 'echo got {name}; exit 5' {name}; echo ready; while :; do sleep 0.05; done");
    let (mut running, mut output) = started(exec("inf2.xlarge", &["--", "sh", "-c", &script]));
    assert_eq!(line(&mut output), "ready");
    send(&running, signal);
    assert_eq!(line(&mut output), format!("got {name}"));
    assert_eq!(running.wait().unwrap().code(), Some(5));
}

#[test]
fn what_the_caller_ignores_stays_ignored() {
    if !is_possible() {
        return;
    }
    let script = "echo ready; read line; echo on";
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$0\" exec --instance-type inf2.xlarge -- sh -c \"$1\""]);
    command.args([env!("CARGO_BIN_EXE_fake-neuron"), script]).process_group(0);
    let mut running = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(running.stdout.take().unwrap());
    assert_eq!(line(&mut output), "ready");
    send(&running, Signal::HUP);
    running.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(line(&mut output), "on");
    assert!(running.wait().unwrap().success());
}

#[test]
fn the_keyboards_interrupt_reaches_the_program_once() {
    if !is_possible() {
        return;
    }
    let script = "n=0; trap 'n=$((n+1))' INT; echo ready; until [ $n -gt 0 ]; do sleep 0.05; done; sleep 0.3; echo times $n";
    // With `exec`, since a shell that waits beside it would end by the interrupt (dash does).
    let command = format!(
        "exec env --default-signal {} exec --instance-type inf2.xlarge -- sh -c '{}'",
        env!("CARGO_BIN_EXE_fake-neuron"),
        script.replace('\'', "'\\''")
    );
    let running = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut running) = running else { return skipped("script is missing, which makes a terminal") };
    let mut output = BufReader::new(running.stdout.take().unwrap());
    let mut keyboard = running.stdin.take().unwrap();
    loop {
        match line(&mut output).as_str() {
            "ready" => break,
            said => assert_ne!(said, "", "it ended without a word"),
        }
    }
    keyboard.write_all(b"\x03").unwrap();
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("times 1"), "{rest}");
    assert!(running.wait().unwrap().success());
}

#[test]
fn what_the_program_leaves_behind_ends_with_it() {
    if !is_possible() {
        return;
    }
    let script =
        "trap '' TERM; sh -c 'trap \"\" TERM; sleep 1000' & echo $!; setsid sleep 1000 & echo $!; exit 4";
    let (mut running, mut output) = started(exec("inf2.xlarge", &["--", "sh", "-c", script]));
    let (stubborn, other) = (line(&mut output), line(&mut output));
    assert_eq!(running.wait().unwrap().code(), Some(4));
    assert!(is_gone(&stubborn) && is_gone(&other));
}

#[test]
fn nothing_is_left_after_a_kill() {
    if !is_possible() {
        return;
    }
    let before = outside();
    // A program that has changed its user, and children of it.
    let change = if is_root() { format!("setpriv --reuid {NOBODY} --clear-groups") } else { String::new() };
    let script = format!(
        "sleep 1000 & echo $!; setsid sleep 1000 & echo $!; exec {change} sh -c 'echo $$; exec sleep 1000'"
    );
    let (mut running, mut output) = started(exec("trn1.32xlarge", &["--imds", "--", "sh", "-c", &script]));
    let processes = [line(&mut output), line(&mut output), line(&mut output)];
    let namespace = fs::read_link(format!("/proc/{}/ns/mnt", processes[2])).unwrap();
    let inside = || -> BTreeSet<PathBuf> {
        let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
        all.filter(|process| fs::read_link(process.join("ns/mnt")).is_ok_and(|its| its == namespace))
            .collect()
    };
    assert!(inside().len() >= 5, "{:?}", inside());
    running.kill().unwrap();
    let status: ExitStatus = running.wait().unwrap();
    assert_eq!(status.code(), None);
    until("the end of all that ran", || processes.iter().all(|process| is_gone(process)));
    // Its last process takes the namespace and the machine with it.
    until("the end of the namespace", || inside().is_empty());
    assert_eq!(outside(), before);
}
