//! How `neuron-monitor` ends, and which flags and config files it refuses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod monitoring;

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Output};

use common::{place, spec, up};
use monitoring::{PATIENCE, Stream, neuron_monitor, quick, write};
use rstest::rstest;
use rustix::process::{Signal, kill_process};

#[rstest]
#[case(Signal::TERM)]
#[case(Signal::INT)]
fn a_signal_ends_it(#[case] signal: Signal) {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let mut stream = Stream::start(&mut neuron_monitor(&root));
    stream.record();
    kill_process(stream.pid(), signal).unwrap();
    // Its end of the stream closes with it.
    let mut rest = String::new();
    assert_eq!(stream.records.read_line(&mut rest).unwrap(), 0);
    assert_eq!(stream.child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_ends_when_nobody_reads_any_more() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let script = "\"$0\" -c \"$1\" | head -2 | wc -l";
    let program = neuron_monitor(&root).get_program().to_owned();
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .arg(quick(&root, ".*"))
        .env("FAKE_NEURON_ROOT", &root)
        .output()
        .unwrap();
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim(), output.stderr.len()), ("2", 0));
}

/// Exit code and what was said on both streams.
fn refused(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[rstest]
#[case(&["--badflag"], "unknown flag `badflag'\n")]
#[case(&["-x"], "unknown flag `x'\n")]
#[case(&["-c"], "expected argument for flag `-c, --config-file'\n")]
#[case(&["--verbose", "9"], "invalid argument for flag `--verbose' (expected a number from 0 to 4)\n")]
#[case(&["--load", "heavy"], "load profile heavy is not known: give one of idle, training, leak, spikes\n")]
fn a_bad_flag_is_told_on_standard_output(#[case] flags: &[&str], #[case] text: &str) {
    let (_folder, root) = place();
    let output = neuron_monitor(&root).args(flags).output().unwrap();
    assert_eq!(refused(&output), (Some(1), text.to_owned(), String::new()));
}

#[rstest]
#[case("{", "FILE is no configuration of neuron-monitor: EOF while parsing an object at line 1 column 1")]
#[case(r#"{"period": "5"}"#, r#"FILE: period \"5\" is none: write it like 1s, 500ms or 1m30s"#)]
#[case(r#"{"period": "0s"}"#, r#"FILE: period \"0s\" is none: write it like 1s, 500ms or 1m30s"#)]
#[case(
    r#"{"neuron_runtimes": [{"period": "1 s"}]}"#,
    r#"FILE: period \"1 s\" is none: write it like 1s, 500ms or 1m30s"#
)]
fn a_config_that_cannot_be_used_is_told(#[case] config: &str, #[case] error: &str) {
    let (_folder, root) = place();
    let file = write(&root, config);
    let (code, out, err) = refused(&neuron_monitor(&root).arg("-c").arg(&file).output().unwrap());
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let error = error.replace("FILE", file.to_str().unwrap());
    assert!(
        err.ends_with(&format!(" level=fatal msg=\"Failed to read the configuration\" error=\"{error}\"\n")),
        "{err}"
    );
}

#[test]
fn a_filter_or_a_file_that_is_none_is_told() {
    let (_folder, root) = place();
    let err = |file: &Path| refused(&neuron_monitor(&root).arg("-c").arg(file).output().unwrap()).2;
    let filter = write(&root, r#"{"neuron_runtimes": [{"tag_filter": "("}]}"#);
    assert!(err(&filter).contains(r#"tag_filter \"(\" is no regular expression"#), "{}", err(&filter));
    assert!(err(Path::new("/nowhere")).contains("/nowhere cannot be read: No such file or directory"));
}

#[test]
fn a_group_of_an_older_version_is_left_out_and_told() {
    let (_folder, root) = place();
    up(&spec("inf1.xlarge"), &root).unwrap();
    let config = write(&root, r#"{"system_metrics": [{"type": "hw_counters"}, {"type": "memory_info"}]}"#);
    let (ours, its) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = neuron_monitor(&root);
    command.arg("-c").arg(config).stderr(OwnedFd::from(its));
    let _stream = Stream::start(&mut command);
    let mut line = String::new();
    BufReader::new(ours).read_line(&mut line).unwrap();
    let (time, rest) = line.split_at(line.find(' ').unwrap());
    assert!(time.starts_with("time=\"20"), "{line}");
    assert_eq!(rest, " level=warning msg=\"metric group \\\"hw_counters\\\" is not known and left out\"\n");
}
