//! Watches the machine: waits until its devices can be discovered, then keeps their health up to date. Started by `run`.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::hardware::discovery::{Discovery, DiscoveryError};
use crate::hardware::held_lnc::HeldLnc;
use crate::hardware::machine::Machine;
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
        match discovery.look(held) {
            Ok(machine) => {
                announce(&machine, discovery.look(None));
                sender.send_replace(Some(Arc::new(machine)));
                status.fine(DEVICES);
                return;
            }
            Err(error) => status.problem(DEVICES, &error.to_string()),
        }
        tokio::time::sleep(poll).await;
    }
}

/// Reads every device's health each `poll`, without end.
pub(crate) async fn follow_health(root: &Path, poll: Duration, sender: &MachineSender) {
    loop {
        tokio::time::sleep(poll).await;
        let Some(before) = sender.borrow().clone() else { continue };
        let mut now = Machine::clone(&before);
        now.refresh_health(root);
        if now != *before {
            log_health(Some(&before), &now);
            sender.send_replace(Some(Arc::new(now)));
        }
    }
}

/// `configured` is what the machine would be without holders.
fn announce(machine: &Machine, configured: Result<Machine, DiscoveryError>) {
    let topology = &machine.topology;
    tracing::info!(
        instance_type = topology.instance_type(),
        device_count = topology.devices(),
        core_count = topology.cores(),
        lnc = topology.lnc(),
        "devices discovered"
    );
    if let Ok(configured) = configured
        && configured.topology.lnc() != topology.lnc()
    {
        tracing::warn!(
            lnc = topology.lnc(),
            configured = configured.topology.lnc(),
            "pods hold cores at another LNC than the configured one; restart the plugin once they have ended"
        );
    }
    log_health(None, machine);
}

fn log_health(before: Option<&Machine>, now: &Machine) {
    for id in now.topology.all_devices().iter() {
        let was = before.and_then(|before| before.faults.get(&id));
        match now.faults.get(&id) {
            Some(reason) if was != Some(reason) => {
                tracing::warn!(device = id, reason, "device unhealthy");
            }
            None if was.is_some() => tracing::info!(device = id, "device healthy again"),
            _ => {}
        }
    }
}
