//! The C program `tests/c/discover.c` on a fake machine: compiled once, run with the machine's `/dev` in place of the host's, its calls
//! answered by a supervisor.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;

use fake_neuron::fault::{Fault, FaultSpec};
use fake_neuron::ioctl::{Served, Supervisor, Visible, Watch, filter};
use fake_neuron::{Machine, MachineSpec};
use fake_neuron_seccomp::spawn;

use crate::common::{place, up};

/// How the program is linked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linked {
    Dynamically,
    /// As Go programs are: no loader, and no library that could be replaced.
    Statically,
}

/// The program; none where it cannot be made or run here, which is an error where `NEURON_REQUIRE_FAKE=1`.
pub(crate) fn program(linked: Linked) -> Option<PathBuf> {
    static PROGRAMS: [OnceLock<Result<PathBuf, String>>; 2] = [const { OnceLock::new() }; 2];
    let (place, name, flags) = match linked {
        Linked::Dynamically => (&PROGRAMS[0], "discover", [].as_slice()),
        Linked::Statically => (&PROGRAMS[1], "discover-static", ["-static"].as_slice()),
    };
    let made = place.get_or_init(|| compile(name, flags).and_then(|path| may_mount().map(|()| path)));
    match made {
        Ok(path) => Some(path.clone()),
        Err(why) if std::env::var("NEURON_REQUIRE_FAKE").as_deref() == Ok("1") => panic!("{why}"),
        Err(why) => {
            println!("skipped: {why}");
            None
        }
    }
}

fn compile(name: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // Test binaries may run at the same time.
    let work = path.with_extension(std::process::id().to_string());
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/discover.c");
    let compiled = Command::new("cc")
        .args(["-O1", "-Wall", "-Werror", "-o"])
        .arg(&work)
        .arg(source)
        .args(flags)
        .output();
    match compiled {
        Ok(output) if output.status.success() => std::fs::rename(work, &path)
            .map_err(|error| format!("{}: {error}", path.display()))
            .map(|()| path),
        Ok(output) => Err(format!("cc {flags:?}: {}", String::from_utf8_lossy(&output.stderr))),
        Err(error) => Err(format!("no C compiler: {error}")),
    }
}

fn may_mount() -> Result<(), String> {
    let tried =
        in_own_mounts(Path::new("/")).arg("true").output().map_err(|error| format!("unshare: {error}"))?;
    let refusal = String::from_utf8_lossy(&tried.stderr).into_owned();
    if tried.status.success() {
        Ok(())
    } else {
        Err(format!("mount namespaces are not permitted: {refusal}"))
    }
}

/// A command that mounts the root's `/dev` over its own and runs what its arguments name.
fn in_own_mounts(root: &Path) -> Command {
    let mut command = Command::new("unshare");
    let own = if rustix::process::geteuid().is_root() { "-m" } else { "-rm" };
    command.args([own, "sh", "-c", "mount --rbind \"$0\" /dev && exec \"$@\""]).arg(root.join("dev"));
    command
}

/// A machine that stands, and who answers for it.
pub(crate) struct Bench {
    _folder: tempfile::TempDir,
    pub(crate) machine: Machine,
    pub(crate) supervisor: Supervisor,
}

impl Bench {
    pub(crate) fn new(spec: &MachineSpec) -> Bench {
        let (folder, root) = place();
        let machine = up(spec, &root).unwrap();
        let supervisor = Supervisor::new(&machine);
        Bench { _folder: folder, machine, supervisor }
    }

    /// Starts the program with every device in sight.
    pub(crate) fn start(&self, program: &Path, words: &[&str]) -> Running {
        self.start_with(program, words, Visible::all(self.machine.devices()), Watch::default())
    }

    /// Starts the program; what it sees and what is watched is given.
    pub(crate) fn start_with(
        &self,
        program: &Path,
        words: &[&str],
        visible: Visible,
        watch: Watch,
    ) -> Running {
        let mut command = in_own_mounts(self.machine.root());
        command.arg(program).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let (child, listener) = spawn(&filter(watch), command).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let supervisor = self.supervisor.clone();
        let serving = std::thread::spawn(move || {
            let stop: OwnedFd = theirs.into();
            supervisor.serve(listener.into(), &visible, stop.as_fd()).unwrap()
        });
        Running { child, serving, _stop: ours }
    }

    /// Runs the program to its end; what it printed.
    pub(crate) fn run(&self, program: &Path, words: &[&str]) -> String {
        self.start(program, words).finish()
    }

    /// Puts the fault in force; its id.
    pub(crate) fn strike(&self, fault: Fault) -> u32 {
        self.machine.strike(&FaultSpec::now(fault)).unwrap().unwrap()
    }

    /// What other programs are told about who uses the machine.
    pub(crate) fn processes(&self) -> Vec<fake_neuron::state::NeuronProcess> {
        fake_neuron::state::processes(self.machine.root()).unwrap()
    }
}

/// A program that runs.
pub(crate) struct Running {
    child: Child,
    serving: JoinHandle<Served>,
    _stop: UnixStream,
}

impl Running {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// The first line that it prints.
    pub(crate) fn first_line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        let output = self.child.stdout.as_mut().unwrap();
        while output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// Ends its input and waits for its end and that of its supervisor; what else it printed.
    pub(crate) fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.child.wait().unwrap();
        assert_eq!(self.serving.join().unwrap(), Served::ToTheEnd);
        printed
    }
}
