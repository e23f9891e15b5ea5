//! Watches the machine: waits until its devices can be discovered, then keeps their health up to date. Started by `run`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use neuron_core::ids::MAX_DEVICES;
use runtime::{System, reached};
use tokio::sync::watch;

use crate::hardware::discovery::{Discovery, DiscoveryError};
use crate::hardware::health::Fault;
use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::machine::Machine;
use crate::hardware::sysfs::FileError;
use crate::status::Status;

/// The part of [`Status`] that is the hardware.
pub(crate) const DEVICES: &str = "devices";

/// Announces the machine to the rest of the plugin; none until it was discovered.
pub(crate) type MachineSender = watch::Sender<Option<Arc<Machine>>>;

/// Looks for the machine every `poll` until it can be discovered, then announces it.
pub(crate) async fn discover(
    discovery: &Discovery<'_>,
    held: Option<&HeldLnc>,
    poll: Duration,
    sender: &MachineSender,
    status: &Status,
) {
    loop {
        match discovery.look(held).await {
            Ok(machine) => {
                // What the machine would be without holders.
                let configured = if held.is_some() { Some(discovery.look(None).await) } else { None };
                announce(&machine, configured);
                sender.send_replace(Some(Arc::new(machine)));
                status.fine(DEVICES);
                return;
            }
            Err(error) => {
                reached("plugin: devices not found");
                status.problem(DEVICES, &error.to_string());
            }
        }
        tokio::time::sleep(poll).await;
    }
}

/// Reads every device's health each `poll`, without end.
pub(crate) async fn follow_health(system: &System, poll: Duration, sender: &MachineSender) {
    loop {
        tokio::time::sleep(poll).await;
        let Some(looked_at) = sender.borrow().clone() else { continue };
        let mut machine = Arc::clone(&looked_at);
        // What comes together is announced together.
        let mut looks = looked_at.looks(system).ready_chunks(MAX_DEVICES);
        while let Some(looked) = looks.next().await {
            let mut faults = machine.faults.clone();
            for (device, fault) in looked {
                match fault {
                    // Planted: a device that was unhealthy once stays so.
                    #[cfg(planted)]
                    None if runtime::is_planted("unhealthy-for-ever") => {}
                    Some(fault) => drop(faults.insert(device, fault)),
                    None => drop(faults.remove(&device)),
                }
            }
            if faults != machine.faults {
                log_health(&machine.faults, &faults);
                machine = Arc::new(Machine { faults, ..Machine::clone(&machine) });
                sender.send_replace(Some(Arc::clone(&machine)));
            }
        }
    }
}

fn announce(machine: &Machine, configured: Option<Result<Machine, DiscoveryError>>) {
    let topology = &machine.topology;
    tracing::info!(
        instance_type = topology.instance_type(),
        device_count = topology.devices(),
        core_count = topology.cores(),
        lnc = topology.lnc(),
        "devices discovered"
    );
    if let Some(Ok(configured)) = configured
        && configured.topology.lnc() != topology.lnc()
    {
        reached("plugin: LNC held");
        tracing::warn!(
            lnc = topology.lnc(),
            configured = configured.topology.lnc(),
            "pods hold cores at another LNC than the configured one; restart the plugin once they have ended"
        );
    }
    log_health(&BTreeMap::new(), &machine.faults);
}

fn log_health(before: &BTreeMap<u8, Fault>, now: &BTreeMap<u8, Fault>) {
    for (device, fault) in now {
        if before.get(device) == Some(fault) {
            continue;
        }
        match fault {
            Fault::Missing { .. } => reached("plugin: device lost"),
            Fault::File(FileError::Hangs { .. }) => reached("plugin: device file hangs"),
            _ => reached("plugin: device unhealthy"),
        }
        tracing::warn!(device, reason = %fault, "device unhealthy");
    }
    for device in before.keys().filter(|device| !now.contains_key(device)) {
        reached("plugin: device healthy again");
        tracing::info!(device, "device healthy again");
    }
}
