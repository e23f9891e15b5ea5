//! Runs an unmodified program on a fake machine that stands at the real paths. Called by `fake-neuron exec`.
//!
//! This process enters a mount namespace (without root a user namespace with it), makes the machine there, starts the program as its
//! child and stays: it answers the program's opens and ioctls of devices, carries faults out, forwards signals and cleans up. Nothing
//! outside of the namespace changes, and what is in it is gone with its last process. The kernel log that the program sees,
//! `/dev/kmsg`, is a file to which faults append, empty at first.

mod background;
mod error;
mod guard;
mod metadata;
mod namespaces;
mod network;
mod proc_files;
mod program;
mod real_paths;
mod union;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::Duration;

use neuron_core::catalog::Catalog;
use rustix::process::Pid;
use tokio::time::{MissedTickBehavior, interval};

pub use error::ExecError;
pub use guard::{GUARD_COMMAND, guard};
pub use metadata::{MetadataOptions, Network};
pub use network::METADATA_ADDRESS;
pub use real_paths::{DEFAULT_ROOT, TOOLS};

use crate::fault::{FaultSpec, Schedule};
use crate::ioctl::{Supervisor, Visible, Watch, filter};
use crate::load::Profile;
use crate::record::Fixture;
use crate::{Machine, MachineSpec};
use background::Background;
use guard::Guard;
use program::{NotStarted, Signals};

/// Environment variable that tells the program's children, such as the stand-in `neuron-ls`, where the machine's root is.
pub const ROOT_VARIABLE: &str = "FAKE_NEURON_ROOT";

/// How often a changed file of `/proc` is looked for: readers see a fault within a second.
const REFRESH: Duration = Duration::from_millis(200);

/// What the machine is made from.
#[derive(Clone, Debug)]
pub enum Hardware {
    /// An instance type.
    Type(MachineSpec),
    /// A host that was captured.
    Fixture(Fixture),
}

/// What to run, and on which machine.
#[derive(Clone, Debug)]
pub struct Exec {
    /// The machine.
    pub hardware: Hardware,
    /// An empty folder at which the program finds the machine's root; nobody outside sees anything in it. `None`: [`DEFAULT_ROOT`].
    pub root: Option<PathBuf>,
    /// The program: a path, or a name that is looked for on PATH.
    pub program: OsString,
    /// The program's arguments.
    pub arguments: Vec<OsString>,
    /// Whether [`TOOLS`] comes first on the program's PATH.
    pub tools_on_path: bool,
    /// Whether opens and ioctls of devices are answered.
    pub ioctls: bool,
    /// Faults in time, counted from the program's start; those that are due at once are there before it.
    pub faults: Vec<FaultSpec>,
    /// What the counters show, if they are to move.
    pub load: Option<Profile>,
    /// The metadata service, if the program is to have one.
    pub metadata: Option<MetadataOptions>,
    /// The file to which [`crate::Reads`] are written once the program has ended, if they are to be counted; opened beforehand, since
    /// the program may see another one at its path. Needs `ioctls`: who answers opens counts them.
    pub reads: Option<Arc<File>>,
}

/// Runs the program and returns its exit code, as a shell would: the program's own, 126 or 127 if it cannot be run or is not there,
/// 128 and the signal's number if one ended it. What it leaves running is ended. Call it in a process of one thread, first thing:
/// the process is in namespaces of its own afterwards, for good.
///
/// # Errors
/// What is not the program's doing: a machine or a fault that cannot be, namespaces or supervision that are not permitted, the
/// kernel's refusal.
pub fn exec(options: &Exec, catalog: &Catalog) -> Result<u8, ExecError> {
    if let Hardware::Type(spec) = &options.hardware {
        spec.check(catalog)?;
    }
    let root = real_paths::check_root(options.root.as_deref())?;
    let folder = std::env::current_dir();
    namespaces::enter(options.metadata.as_ref().is_some_and(|metadata| metadata.network == Network::Own))?;
    let machine = real_paths::show(&options.hardware, &root, catalog)?;
    if let Ok(folder) = folder {
        // Another folder may be seen at the same path by now; if none is, the old one stays.
        let _ = std::env::set_current_dir(folder);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ExecError::refused("start a runtime"))?.block_on(attend(options, &machine))
}

/// Starts what runs beside the program, and ends it and all that the program leaves, however that went.
async fn attend(options: &Exec, machine: &Machine) -> Result<u8, ExecError> {
    let guard = Guard::start().map_err(ExecError::refused("start the process that cleans up"))?;
    let mut background = Background::new();
    let supervisor = Supervisor::new(machine).refusing_writes();
    let supervisor = if options.reads.is_some() { supervisor.with_reads() } else { supervisor };
    let code = run(options, machine, &mut background, supervisor.clone()).await;
    guard::end_others_gently(&BTreeSet::from([std::process::id(), guard.id()]));
    background.end();
    guard.end();
    let code = code?;
    if let (Some(file), Some(reads)) = (&options.reads, supervisor.reads()) {
        file.as_ref()
            .write_all(reads.to_json().as_bytes())
            .map_err(ExecError::refused("write what was read, and how often"))?;
    }
    Ok(code)
}

/// Starts the program and stays with it until its end.
async fn run(
    options: &Exec,
    machine: &Machine,
    background: &mut Background,
    supervisor: Supervisor,
) -> Result<u8, ExecError> {
    let mut signals = Signals::listen().map_err(ExecError::refused("listen for signals"))?;
    let supervisor = match &options.metadata {
        Some(metadata) => metadata::serve(metadata, machine, supervisor)?,
        None => supervisor,
    };
    if let Some(profile) = options.load {
        background.put_under_load(machine, profile)?;
    }
    background.break_things(machine, Schedule::new(options.faults.clone())).await?;
    let program = match start(options, machine, background, supervisor) {
        Ok(program) => program,
        Err(NotStarted::Own(error)) => return Err(error),
        Err(NotStarted::Program(text, code)) => {
            let _ = writeln!(io::stderr(), "fake-neuron: {text}");
            return Ok(code);
        }
    };
    tokio::select! {
        code = signals.until_end(Pid::from_child(&program)) => code.map_err(ExecError::refused("wait for the program")),
        failure = background.failure() => Err(failure),
        refused = keep_files(machine) => Err(refused),
    }
}

fn start(
    options: &Exec,
    machine: &Machine,
    background: &mut Background,
    supervisor: Supervisor,
) -> Result<Child, NotStarted> {
    let mut command = command(options, machine.root());
    let not_started = |reason| NotStarted::of(&options.program, options.ioctls, reason);
    if !options.ioctls {
        return command.spawn().map_err(not_started);
    }
    let metadata_service =
        options.metadata.as_ref().is_some_and(|metadata| metadata.network == Network::Shared);
    let watch = Watch { node_types: !real_paths::has_nodes(machine), metadata_service };
    let visible = Visible::all(machine.devices());
    let started = background.supervise(&filter(watch), command, supervisor, visible);
    started.map_err(not_started)?.map_err(NotStarted::Own)
}

/// The program with the environment in which it finds the machine.
fn command(options: &Exec, root: &Path) -> Command {
    let mut command = Command::new(&options.program);
    command.args(&options.arguments).env(ROOT_VARIABLE, root);
    // It means another root, at which the program shall not look.
    command.env_remove("NEURON_ROOT");
    if options.tools_on_path {
        let mut path = OsString::from(TOOLS);
        if let Some(others) = std::env::var_os("PATH").filter(|others| !others.is_empty()) {
            path.push(":");
            path.push(others);
        }
        command.env("PATH", path);
    }
    command
}

/// Shows changed files of `/proc`, and lifts what a killed `fake-neuron fault --for` would have lifted, until the kernel refuses.
async fn keep_files(machine: &Machine) -> ExecError {
    let mut ticks = interval(REFRESH);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        if let Err(refused) = machine.lift_ended() {
            return refused.into();
        }
        if let Err(refused) = real_paths::refresh_proc_files(machine.root()) {
            return refused;
        }
    }
}
