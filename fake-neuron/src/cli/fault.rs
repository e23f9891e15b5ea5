//! `fake-neuron fault`: the command line around [`fake_neuron::fault`]. Called by `cli`.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use fake_neuron::Machine;
use fake_neuron::fault::{
    Due, Fault, FaultSpec, HardwareError, Schedule, State, Stop, duration_text, parse_duration, read_faults,
};

use super::output::columns;
use super::{Format, until_signal};

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Lose a device: its node, class link and sysfs folder are gone.
    DeviceLost {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        at: At,
    },
    /// Have a counter of memory errors show a number.
    Ecc {
        #[command(flatten)]
        device: Device,
        /// The counter, such as mem_ecc_uncorrected.
        #[arg(long, value_name = "NAME")]
        counter: String,
        /// What it shows, 0 to 65535.
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        count: u32,
        #[command(flatten)]
        at: At,
    },
    /// Have the driver report broken components.
    Unhealthy {
        #[command(flatten)]
        device: Device,
        /// The components, such as hbm,link_host.
        #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "hbm")]
        components: Vec<String>,
        #[command(flatten)]
        at: At,
    },
    /// Have a number of the driver's health_status folder be another one.
    HealthStatus {
        #[command(flatten)]
        device: Device,
        /// The file, hw_error_event or healthcheck_heartbeat; what the driver means by its number is not documented.
        #[arg(long, value_name = "NAME", default_value = "hw_error_event")]
        file: String,
        /// What it shows.
        #[arg(long, value_name = "NUMBER", default_value_t = 1)]
        value: u32,
        #[command(flatten)]
        at: At,
    },
    /// Have reads hang, of one file or of all that the driver shows of a device.
    HungRead {
        /// The file, such as sys/module/neuron/version.
        #[arg(long, required_unless_present = "device", conflicts_with = "device")]
        path: Option<String>,
        /// Device id.
        #[arg(long, value_name = "ID")]
        device: Option<u8>,
        #[command(flatten)]
        at: At,
    },
    /// Have a device in reset.
    Reset {
        #[command(flatten)]
        device: Device,
        #[command(flatten)]
        at: At,
    },
    /// Unload the driver: the module, every device and the lines in /proc are gone.
    DriverUnloaded {
        #[command(flatten)]
        at: At,
    },
    /// Break the link between two devices.
    LinkDown {
        #[command(flatten)]
        device: Device,
        /// The device at the other end.
        #[arg(long, value_name = "ID")]
        other: u8,
        #[command(flatten)]
        at: At,
    },
    /// Write another LNC setting than the node should have.
    WrongLnc {
        /// What the setting says.
        #[arg(long)]
        lnc: u8,
        #[command(flatten)]
        at: At,
    },
    /// Have a process hold a core, so that it cannot be reserved.
    CoreHeld {
        /// Physical core, counted over all devices from 0.
        #[arg(long, value_name = "ID")]
        core: u16,
        /// The process that holds it.
        #[arg(long, default_value_t = 1)]
        pid: u32,
        #[command(flatten)]
        at: At,
    },
    /// Report a hardware error in the kernel log, dev/kmsg below the root.
    KernelError {
        #[command(flatten)]
        device: Device,
        /// SRAM_UNCORRECTABLE_ERROR, NC_UNCORRECTABLE_ERROR, HBM_UNCORRECTABLE_ERROR, DMA_ERROR or HANG_ON_COLLECTIVES.
        #[arg(long, value_parser = hardware_error)]
        kind: HardwareError,
        #[command(flatten)]
        at: At,
    },
    /// Show the faults in force and those to come.
    List {
        #[command(flatten)]
        root: FaultRoot,
        /// How to print it.
        #[arg(short, long, value_enum, default_value_t = Format::Table)]
        output: Format,
    },
    /// Lift one fault, or all: what was there before is there again.
    Clear {
        /// The fault's id, as `list` shows it [default: all].
        id: Option<u32>,
        #[command(flatten)]
        root: FaultRoot,
    },
    /// Carry out the faults of a file, a JSON list such as [{"fault": "device-lost", "device": 3, "for": "10s"}].
    Apply {
        /// The file.
        file: PathBuf,
        #[command(flatten)]
        root: FaultRoot,
    },
}

#[derive(Args)]
pub(crate) struct Device {
    /// Device id.
    #[arg(long, value_name = "ID")]
    device: u8,
}

#[derive(Args)]
pub(crate) struct FaultRoot {
    /// The machine's root folder [without it and FAKE_NEURON_ROOT: NEURON_ROOT].
    #[arg(long, env = "FAKE_NEURON_ROOT", value_name = "DIR", required_unless_present = "neuron_root")]
    root: Option<PathBuf>,
    /// Where `fake-neuron up` and the device plugin have it.
    #[arg(long, env = "NEURON_ROOT", hide = true)]
    neuron_root: Option<PathBuf>,
}

impl FaultRoot {
    pub(crate) fn folder(&self) -> &Path {
        // Clap insists on one.
        self.root.as_deref().or(self.neuron_root.as_deref()).unwrap_or(Path::new(""))
    }
}

/// When and how likely a fault strikes, and where.
#[derive(Args)]
pub(crate) struct At {
    /// Strike so much later, such as 5s or 500ms; the command waits.
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    after: Option<Duration>,
    /// Lift it after so long; the command waits.
    #[arg(long = "for", value_name = "TIME", value_parser = parse_duration)]
    lasts: Option<Duration>,
    /// The chance that it strikes at all, 0 to 1.
    #[arg(long, value_name = "P")]
    probability: Option<f64>,
    /// What the chance is drawn from: the same seed always gives the same.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    root: FaultRoot,
}

/// Carries the command out. What it prints at its end.
///
/// # Errors
/// No machine, a fault that it cannot have, or the file system's refusal.
pub(crate) fn run(command: Command) -> anyhow::Result<String> {
    let (fault, at) = match command {
        Command::List { root, output } => return list(&Machine::open(root.folder())?, output),
        Command::Clear { id, root } => return clear(&Machine::open(root.folder())?, id),
        Command::Apply { file, root } => {
            return carry_out(&Machine::open(root.folder())?, read_faults(&file)?);
        }
        Command::DeviceLost { device, at } => (Fault::DeviceLost { device: device.device }, at),
        Command::Ecc { device, counter, count, at } => {
            (Fault::Ecc { device: device.device, counter, count }, at)
        }
        Command::Unhealthy { device, components, at } => {
            (Fault::Unhealthy { device: device.device, components }, at)
        }
        Command::HealthStatus { device, file, value, at } => {
            (Fault::HealthStatus { device: device.device, file, value }, at)
        }
        Command::HungRead { path, device, at } => (Fault::HungRead { path, device }, at),
        Command::Reset { device, at } => (Fault::Reset { device: device.device }, at),
        Command::DriverUnloaded { at } => (Fault::DriverUnloaded {}, at),
        Command::LinkDown { device, other, at } => (Fault::LinkDown { device: device.device, other }, at),
        Command::WrongLnc { lnc, at } => (Fault::WrongLnc { lnc }, at),
        Command::CoreHeld { core, pid, at } => (Fault::CoreHeld { core, pid }, at),
        Command::KernelError { device, kind, at } => (Fault::KernelError { device: device.device, kind }, at),
    };
    let spec = FaultSpec {
        fault,
        after: at.after.unwrap_or_default(),
        lasts: at.lasts,
        probability: at.probability,
        seed: at.seed,
    };
    carry_out(&Machine::open(at.root.folder())?, vec![spec])
}

/// Strikes what strikes at once, and stays for the rest.
fn carry_out(machine: &Machine, specs: Vec<FaultSpec>) -> anyhow::Result<String> {
    specs.iter().try_for_each(|spec| machine.check_fault(spec))?;
    for spec in specs.iter().filter(|spec| !spec.strikes()) {
        say(&format!("{} does not strike: the draw of seed {} says no", spec.fault, spec.seed));
    }
    let schedule = Schedule::new(specs);
    if schedule.faults().iter().any(|spec| spec.strikes() && !spec.is_immediate()) {
        let end = duration_text(schedule.end());
        let _ = writeln!(
            io::stderr(),
            "fake-neuron: this stays until the last fault is over, in {end}; end it early with Ctrl-C, which lifts what it has \
             struck, or start it with & to go on meanwhile"
        );
    }
    let (for_run, stop) = (machine.clone(), Stop::default());
    let ends = stop.clone();
    let interrupted = until_signal(
        move || schedule.run(&for_run, &ends, |due, spec, id| say(&happened(due, spec, id))),
        move || stop.ask(),
    )?;
    Ok(if interrupted { "ended early: what was struck is lifted\n".to_owned() } else { String::new() })
}

fn happened(due: Due, spec: &FaultSpec, id: Option<u32>) -> String {
    let what = match id {
        Some(id) => format!("fault {id}, {},", spec.fault),
        None => spec.fault.to_string(),
    };
    match (due, id, spec.lasts) {
        (Due::Lift(_), ..) => format!("{what} is over"),
        (Due::Strike(_), None, _) if spec.fault.happens_once() => format!("{what} is in the kernel log"),
        (Due::Strike(_), None, _) => format!("{what} was cleared before it struck"),
        (Due::Strike(_), _, Some(lasts)) => format!("{what} is in force for {}", duration_text(lasts)),
        (Due::Strike(_), ..) => format!("{what} is in force until it is cleared"),
    }
}

/// Prints a line at once: who waits for a moment of it reads it then.
fn say(line: &str) {
    let mut output = io::stdout().lock();
    let _ = writeln!(output, "{line}").and_then(|()| output.flush());
}

fn clear(machine: &Machine, id: Option<u32>) -> anyhow::Result<String> {
    Ok(match id {
        Some(id) => machine.lift(id).map(|()| format!("fault {id} is lifted\n"))?,
        None => match machine.lift_all()? {
            0 => "there was no fault\n".to_owned(),
            1 => "1 fault is lifted\n".to_owned(),
            several => format!("{several} faults are lifted\n"),
        },
    })
}

fn list(machine: &Machine, output: Format) -> anyhow::Result<String> {
    let mut faults = machine.faults()?.faults;
    faults.sort_by_key(|standing| standing.id);
    if output == Format::Json {
        let text = serde_json::to_string_pretty(&faults).context("cannot print the faults")?;
        return Ok(text + "\n");
    }
    let rows = faults.iter().map(|standing| {
        vec![
            standing.id.to_string(),
            match standing.state {
                State::Pending => "pending".to_owned(),
                State::InForce => "in force".to_owned(),
            },
            standing.spec.fault.name().to_owned(),
            standing.spec.fault.subject(),
            moment(standing.at),
            standing.until.map_or_else(|| "cleared".to_owned(), moment),
        ]
    });
    Ok(columns(&["ID", "STATE", "FAULT", "OF", "AT", "UNTIL"], rows, io::stdout().is_terminal()))
}

/// A time in milliseconds since 1970 for people; empty where no calendar has it.
fn moment(milliseconds: u64) -> String {
    let at = i64::try_from(milliseconds).ok().and_then(|at| jiff::Timestamp::from_millisecond(at).ok());
    at.map(|at| format!("{at:.0}")).unwrap_or_default()
}

fn hardware_error(word: &str) -> Result<HardwareError, String> {
    let found = HardwareError::ALL.into_iter().find(|error| error.word() == word);
    let known = HardwareError::ALL.map(HardwareError::word).join(", ");
    found.ok_or_else(|| format!("give one of {known}"))
}
