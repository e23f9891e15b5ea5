//! What every test of `fake-neuron exec` needs: short ways to run it, also as an ordinary user, and to look at what it left.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use tempfile::TempDir;

/// Waits in a script until a command succeeds, for a minute at most.
pub(crate) const WAIT_FOR: &str = r#"wait_for() { tries=0; until "$@" >/dev/null 2>&1; do tries=$((tries+1)); [ $tries -lt 600 ] || exit 9; sleep 0.1; done; }
"#;

pub(crate) const NOBODY: &str = "65534";

pub(crate) fn program() -> Command {
    // A shell cannot trap what was ignored when it began, and who runs tests in the background ignores interrupts.
    let mut command = Command::new("env");
    command.args(["--default-signal", env!("CARGO_BIN_EXE_fake-neuron")]);
    command.env_remove("NEURON_ROOT").env_remove("FAKE_NEURON_ROOT");
    command
}

/// `fake-neuron exec` of a type, with what follows.
pub(crate) fn exec(instance_type: &str, arguments: &[&str]) -> Command {
    let mut command = program();
    command.args(["exec", "--instance-type", instance_type]).args(arguments);
    command
}

pub(crate) fn skipped(why: &str) {
    assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "skipped: {why}");
    println!("skipped: {why}");
}

/// Whether namespaces are permitted here at all.
pub(crate) fn is_possible() -> bool {
    let tried = exec("inf2.xlarge", &["--", "true"]).output().unwrap();
    let said = text(&tried.stderr);
    if tried.status.code() == Some(125) && said.contains("namespaces are not permitted") {
        skipped(said.trim());
        return false;
    }
    assert_eq!((tried.status.code(), said.as_str()), (Some(0), ""));
    true
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}

/// What this user would have, as nobody; none where it cannot be.
pub(crate) fn as_nobody(folder: &TempDir, arguments: &[&str]) -> Option<Command> {
    if !is_root() {
        let mut command = program();
        command.args(arguments);
        return Some(command);
    }
    let setpriv = ["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"];
    if Command::new("setpriv").args(setpriv).arg("true").output().is_err() {
        skipped("setpriv is missing, so root cannot be an ordinary user");
        return None;
    }
    // Nobody may not reach into the folder of the build.
    let copy = folder.path().join("fake-neuron");
    fs::copy(env!("CARGO_BIN_EXE_fake-neuron"), &copy).unwrap();
    open_to_all(folder.path());
    let mut command = Command::new("setpriv");
    command.args(setpriv).arg(copy).args(arguments).current_dir("/");
    Some(command)
}

pub(crate) fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What was printed by a program that ended well and complained of nothing.
pub(crate) fn printed(output: &Output) -> String {
    assert_eq!(
        (output.status.code(), text(&output.stderr).as_str()),
        (Some(0), ""),
        "{}",
        text(&output.stdout)
    );
    text(&output.stdout)
}

/// What is to be the same after a run: this namespace's mounts, and the folders in which the machine was shown.
pub(crate) fn outside() -> (String, Vec<Vec<PathBuf>>) {
    let folders = ["/dev", "/opt", "/sys/class", "/sys/module", "/sys/devices/virtual", "/run"];
    let names = |folder: &&str| {
        let mut names: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.sort();
        names
    };
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    (
        mounts.lines().filter(|line| line.contains("fake-neuron")).collect(),
        folders.iter().map(names).collect(),
    )
}

/// Waits until this is so.
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} never happens");
        std::thread::yield_now();
    }
}

/// A started program and its standard output.
pub(crate) fn started(mut command: Command) -> (Child, BufReader<std::process::ChildStdout>) {
    // A group of its own: not the terminal's, whose signals reach everybody.
    let mut child = command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    (child, output)
}

pub(crate) fn line(output: &mut impl BufRead) -> String {
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
