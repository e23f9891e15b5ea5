//! Breaks and mends the fake hardware of simulated nodes: single devices, the driver, what the host shows. Called by the suite.

use std::path::Path;

use fake_neuron::{Blueprint, DRIVER_MAJOR, Entry, Health, Kind};
use runtime::system::DeviceNumber;
use simulated_cluster::plan::NodePlan;
use simulated_cluster::suite::{DeviceFault, MachineFault};
use simulator::files::FileSystem;

use crate::faults::Faults;
use crate::machine::Machine;

/// The folder of a node's fake hardware.
const ROOT: &str = "/";
/// The driver's files, below the root.
const DRIVER: [&str; 3] =
    ["sys/module/neuron", "sys/devices/virtual/neuron_device", "sys/class/neuron_device"];
/// The operator's LNC setting, below the root.
const LNC: &str = "opt/aws/neuron/logical_nc_config";
/// The host's processes.
const PROC: &str = "/proc";

/// The driver is unloaded: nothing of it is left.
pub(crate) const DRIVER_GONE: &str = "driver gone";
/// The same where the devices' nodes were made by hand, and stay.
pub(crate) const DRIVER_GONE_NODES_STAY: &str = "driver gone, nodes stay";
/// The host's processes cannot be looked at.
pub(crate) const PROCESSES_HIDDEN: &str = "processes hidden";
/// The operator's LNC setting is another one.
pub(crate) const LNC_EDITED: &str = "LNC edited";
/// With these a plugin serves no device, or none once it is started again.
pub(crate) const OF_ALL_DEVICES: [&str; 3] = [DRIVER_GONE, DRIVER_GONE_NODES_STAY, LNC_EDITED];

/// A device of which nothing is there.
const LOST: &str = "lost";
/// What can be wrong with a device.
pub(crate) const OF_DEVICES: [&str; 4] = [LOST, "unhealthy", "hangs", "reset"];

/// What can be wrong with a machine, and whether seeds draw it. Where a type has two LNCs, a plugin that is started again while nobody
/// holds cores goes over to the other one: then the ids of cores are others, which the observer cannot follow.
pub(crate) fn of_machine(node: &NodePlan) -> Vec<(&'static str, bool)> {
    let has_one_lnc =
        Machine::of(node).is_ok_and(|machine| machine.model.generation.logical_core_sizes().len() == 1);
    vec![
        (DRIVER_GONE, true),
        (DRIVER_GONE_NODES_STAY, true),
        (PROCESSES_HIDDEN, true),
        (LNC_EDITED, has_one_lnc),
    ]
}

/// Breaks or mends a device. While there is no driver nothing shows it.
pub(crate) fn set_device(faults: &mut Faults, fault: &DeviceFault<'_>) -> Result<(), String> {
    let DeviceFault { host, node, device, fault, breaks } = *fault;
    if !OF_DEVICES.contains(&fault) {
        return Err(format!("a device cannot be {fault}; there is {}", OF_DEVICES.join(", ")));
    }
    let blueprint = Machine::of(node)?.blueprint(host.name())?;
    let number = u8::try_from(device).map_err(|_| format!("there is no device {device}"))?;
    if !is_driver_gone(faults, host.name()) {
        show_device(host.files(), &blueprint, number, fault, breaks)?;
    }
    faults.change(host.name(), device, fault, breaks);
    Ok(())
}

/// Has something go wrong with a machine, or puts it right.
pub(crate) fn set_machine(faults: &mut Faults, fault: &MachineFault<'_>) -> Result<(), String> {
    let MachineFault { host, node, fault, breaks } = *fault;
    let (machine, files) = (Machine::of(node)?, host.files());
    match fault {
        PROCESSES_HIDDEN => files.set_hung(Path::new(PROC), breaks),
        LNC_EDITED => {
            let lnc = machine.lnc.unwrap_or(machine.model.default_lnc);
            let other = if lnc == 1 { 2 } else { 1 };
            let said = if breaks { Some(other) } else { machine.lnc };
            let path = Path::new(ROOT).join(LNC);
            match said {
                Some(lnc) => {
                    let text = format!("NEURON_LOGICAL_NC_CONFIG={lnc}\n");
                    files.write(&path, text).map_err(|error| error.to_string())?;
                }
                None => files.remove_all(&path),
            }
        }
        DRIVER_GONE | DRIVER_GONE_NODES_STAY if breaks => {
            DRIVER.iter().for_each(|path| files.remove_all(&Path::new(ROOT).join(path)));
            let blueprint = machine.blueprint(host.name())?;
            for device in (0..blueprint.devices()).filter(|_| fault == DRIVER_GONE) {
                let [node, ..] = blueprint.lost_paths(device).map_err(|error| error.to_string())?;
                files.remove_all(&Path::new(ROOT).join(node));
            }
        }
        DRIVER_GONE | DRIVER_GONE_NODES_STAY => {
            faults.change_machine(host.name(), fault, false);
            if is_driver_gone(faults, host.name()) {
                return Ok(());
            }
            let blueprint = machine.blueprint(host.name())?;
            let is_drivers =
                |entry: &Entry| DRIVER.iter().chain(&["dev/neuron"]).any(|path| entry.path.starts_with(path));
            let entries: Vec<Entry> = blueprint.files().into_iter().filter(is_drivers).collect();
            write(files, &entries).map_err(|error| error.to_string())?;
            for (device, fault) in faults.broken(host.name()) {
                let number = u8::try_from(device).map_err(|_| format!("there is no device {device}"))?;
                show_device(files, &blueprint, number, &fault, true)?;
            }
        }
        other => return Err(format!("a machine cannot have {other}")),
    }
    faults.change_machine(host.name(), fault, breaks);
    Ok(())
}

/// Whether the machine shows no device: then a plugin that starts does not know whether the driver is yet to come.
pub(crate) fn shows_no_device(faults: &Faults, node: &str, machine: &Machine) -> bool {
    let lost = faults.broken(node).iter().filter(|(_, fault)| fault == LOST).count();
    is_driver_gone(faults, node) || lost == usize::from(machine.devices())
}

fn is_driver_gone(faults: &Faults, node: &str) -> bool {
    [DRIVER_GONE, DRIVER_GONE_NODES_STAY].into_iter().any(|fault| faults.is_there(node, fault))
}

/// Has the files show a device's fault, or its end.
fn show_device(
    files: &FileSystem,
    blueprint: &Blueprint,
    device: u8,
    fault: &str,
    breaks: bool,
) -> Result<(), String> {
    let told = |error: fake_neuron::MachineError| error.to_string();
    let (lost, restored) =
        (blueprint.lost_paths(device).map_err(told)?, blueprint.device_files(device).map_err(told)?);
    let in_root = |path: &str| Path::new(ROOT).join(path);
    let lose = || lost.iter().for_each(|path| files.remove_all(&in_root(path)));
    let write = |entries: &[Entry]| write(files, entries).map_err(|error| error.to_string());
    match (fault, breaks) {
        (LOST, true) => lose(),
        (LOST, false) => write(&restored)?,
        ("hangs", hangs) => files.set_hung(&in_root(&lost[2]), hangs),
        ("reset", true) => {
            let reset = restored.iter().filter(|entry| entry.path.ends_with("/reset"));
            for entry in reset {
                files.write(&in_root(&entry.path), "0\n").map_err(|error| error.to_string())?;
            }
        }
        ("reset", false) => {
            let reset = restored.into_iter().filter(|entry| entry.path.ends_with("/reset"));
            write(&reset.collect::<Vec<_>>())?;
        }
        (_, breaks) => {
            let health = if breaks { Health::unhealthy("hbm") } else { Health::Healthy };
            match blueprint.health_files(device, &health).map_err(told)? {
                Some(entries) if files.exists(&in_root(&lost[2])) => write(&entries)?,
                // A device that is lost shows nothing.
                Some(_) => {}
                None if breaks => lose(),
                None => write(&restored)?,
            }
        }
    }
    Ok(())
}

/// Writes files below the root.
pub(crate) fn write(files: &FileSystem, entries: &[Entry]) -> std::io::Result<()> {
    for entry in entries {
        let path = Path::new(ROOT).join(&entry.path);
        match &entry.kind {
            Kind::File { content, .. } => files.write(&path, content.as_bytes())?,
            Kind::Link { target } => files.make_link(&path, Path::new(target))?,
            Kind::Node { minor } => {
                files.make_node(&path, DeviceNumber { major: DRIVER_MAJOR, minor: (*minor).into() })?;
            }
        }
    }
    Ok(())
}
