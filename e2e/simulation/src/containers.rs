//! What containers do, and what hardware they really have.

use std::time::Duration;

use fake_cluster::kubelet::{ContainerRun, ContainerStart};
use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::{VISIBLE_CORES, VISIBLE_DEVICES};
use neuron_workload::Workload;
use simulated_cluster::suite::Units;

use crate::machine::Machine;

/// Every container is a `neuron-workload`. One in four takes all the grace that it is given at its end.
pub(crate) fn run(start: &ContainerStart) -> ContainerRun {
    let Ok(workload) = Workload::from_args(&start.args) else {
        return ContainerRun { ends: Some((Duration::ZERO, 2)), ..ContainerRun::default() };
    };
    let stubborn = simulator::random::hash(start.pod_uid.as_bytes()).is_multiple_of(4);
    ContainerRun {
        ends: workload.ends_after.map(|after| (after, i32::from(workload.exit_code))),
        termination: if stubborn { Duration::MAX } else { Duration::ZERO },
        ..ContainerRun::default()
    }
}

/// The logical cores that a container has, by its environment and its device nodes.
///
/// # Errors
/// They contradict each other, or cannot be read.
pub(crate) fn units(machine: &Machine, start: &ContainerStart) -> Result<Units, String> {
    let value = |name: &str| start.env.get(name).map_or("", String::as_str);
    let cores: CoreSet = value(VISIBLE_CORES).parse().map_err(|error| format!("{VISIBLE_CORES}: {error}"))?;
    let devices: DeviceSet =
        value(VISIBLE_DEVICES).parse().map_err(|error| format!("{VISIBLE_DEVICES}: {error}"))?;
    let mut units: Units = cores.iter().map(u32::from).collect();
    units.extend(devices.iter().flat_map(|device| machine.cores_of(device.into())));
    let nodes = start.devices.iter().map(|mount| {
        let number = mount.container_path.strip_prefix("/dev/neuron").and_then(|number| number.parse().ok());
        number.ok_or_else(|| format!("{} is no Neuron device", mount.container_path))
    });
    let nodes: std::collections::BTreeSet<u32> = nodes.collect::<Result<_, _>>()?;
    if nodes != machine.devices_of(&units) {
        return Err(format!("its device nodes are {nodes:?}, its cores {units:?}"));
    }
    Ok(units)
}
