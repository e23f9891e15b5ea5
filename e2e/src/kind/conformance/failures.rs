//! The cases about what kubelet offers when devices or the plugin fail: `device_plugin_failures_test.go`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kube::api::DeleteParams;
use neuron_core::names;

use super::Seen;
use super::parts::amounts;
use super::room::Room;
use crate::kind::stand_in::{DEVICES, Fails};
use crate::kind::wait::until;
use neuron_e2e_engine::scenario::DeviceState;

/// The pod of the case that has one.
const POD: &str = "device-plugin-failures-test";
/// Devices of the larger node.
const ALL: i64 = 6;
/// After this kubelet forgets the capacity of a plugin that is gone (five minutes), and a minute.
const GRACE: Duration = Duration::from_secs(6 * 60);
/// What a case says of that time where it has waited for it, and where not.
const WAITED_FOR: &str = "0 of 0 after kubelet's five minutes";
const NOT_WAITED_FOR: &str = "kubelet's five minutes until 0 of 0 are waited for with --grace";

pub(super) async fn options_fail(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(1, 1).await?;
    let plugin = room.stand_in(Fails::Options).await?;
    let answer = plugin.register().await?.err().context("kubelet took a plugin without options")?;
    let text = answer.message();
    ensure!(
        text.contains("failed to get device plugin options")
            && text.contains("GetDevicePluginOptions failed"),
        "kubelet refused the stand-in for another reason: {text}"
    );
    room.unused(&plugin, (-1, -1)).await?;
    room.offers(1, 1).await?;
    Ok(Seen::That(
        "a stand-in that fails so: kubelet refuses it, calls nothing else and does not name its resource; our plugin \
         beside it goes on, 1 of 1"
            .to_owned(),
    ))
}

pub(super) async fn list_fails_at_once(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(ALL, ALL).await?;
    let plugin = room.stand_in(Fails::List).await?;
    plugin.register().await?.context("registering the stand-in")?;
    room.until_amounts(plugin.resource(), (0, 0)).await?;
    room.unused(&plugin, (0, 0)).await?;
    room.offers(ALL, ALL).await?;
    Ok(Seen::That(format!(
        "a stand-in that fails so: 0 of 0, kubelet lists no second time; our plugin beside it goes on, {ALL} of {ALL}"
    )))
}

pub(super) async fn single_device(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(1, 1).await?;
    room.becomes(0, DeviceState::Unhealthy).await?;
    room.offers(0, 1).await?;
    room.becomes(0, DeviceState::Healthy).await?;
    room.offers(1, 1).await?;
    Ok(Seen::That("allocatable 1, 0, 1 of 1; its NeuronCores 2, 0, 2 of 2".to_owned()))
}

pub(super) async fn single_device_in_use(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(1, 1).await?;
    room.run_pod(POD, 1).await?;
    room.offers(1, 1).await?;
    room.becomes(0, DeviceState::Unhealthy).await?;
    room.offers(0, 1).await?;
    room.stays(POD, "Running").await?;
    room.delete(POD, DeleteParams::default()).await?;
    room.offers(0, 1).await?;
    room.becomes(0, DeviceState::Healthy).await?;
    room.offers(1, 1).await?;
    Ok(Seen::That(
        "allocatable 1, 0 of 1 while the pod ran on, 0 of 1 after its deletion, 1 of 1 once healthy"
            .to_owned(),
    ))
}

pub(super) async fn several_devices(room: &Room<'_>) -> anyhow::Result<Seen> {
    use DeviceState::{Healthy, Unhealthy};
    room.offers(ALL, ALL).await?;
    let mut seen = vec![ALL.to_string()];
    let changes: [(&[u8], DeviceState, i64); 5] = [
        (&[3], Unhealthy, 5),
        (&[3], Healthy, 6),
        (&[1, 3], Unhealthy, 4),
        (&[3], Healthy, 5),
        (&[1], Healthy, 6),
    ];
    for (devices, state, allocatable) in changes {
        for device in devices {
            room.becomes(*device, state).await?;
        }
        room.offers(allocatable, ALL).await?;
        seen.push(allocatable.to_string());
    }
    Ok(Seen::That(format!("allocatable {} of {ALL}, and twice as many NeuronCores", seen.join(", "))))
}

pub(super) async fn list_fails_later(room: &Room<'_>) -> anyhow::Result<Seen> {
    room.offers(ALL, ALL).await?;
    let stand_in = room.stand_in(Fails::Later).await?;
    stand_in.register().await?.context("registering the stand-in")?;
    room.until_amounts(stand_in.resource(), (DEVICES, DEVICES)).await?;
    room.by("letting the stand-in's ListAndWatch fail");
    stand_in.fail_now();
    room.until_amounts(stand_in.resource(), (0, DEVICES)).await?;
    room.unused(&stand_in, (0, DEVICES)).await?;
    let forgotten = if room.grace {
        room.until_amounts_within(GRACE, stand_in.resource(), (0, 0)).await?;
        room.unused(&stand_in, (0, 0)).await?;
        WAITED_FOR
    } else {
        NOT_WAITED_FOR
    };
    room.by(
        "killing our plugin's process as often as it starts, until kubelet has said that nothing is left",
    );
    until(&format!("allocatable to be 0 of {ALL}"), || async {
        let node = room.node().await?;
        if amounts(&node, names::NEURON) == (0, ALL) {
            return Ok(true);
        }
        // Not there yet, or between two lives: looked at again.
        if let Ok(plugin) = room.plugin().await {
            let _ended_already = room.signal_plugin(&plugin, "SIGKILL").await;
        }
        Ok(false)
    })
    .await?;
    room.by("waiting for our plugin to register by itself");
    room.cluster.serves(room.node_name()?, None).await?;
    room.offers(ALL, ALL).await?;
    let restarts = room.plugin_restarts().await?;
    Ok(Seen::That(format!(
        "a stand-in that fails so: 0 of {DEVICES}, kubelet lists no second time; {forgotten}; our plugin killed: 0 of \
         {ALL}, and {ALL} of {ALL} once it registered by itself after restart {restarts}"
    )))
}

pub(super) async fn plugin_stopped(room: &Room<'_>) -> anyhow::Result<Seen> {
    let node = room.node_name()?;
    room.offers(ALL, ALL).await?;
    room.by("stopping the device plugin");
    room.cluster.stop_plugin(node).await?;
    room.offers(0, ALL).await?;
    let capacity = if room.grace {
        room.offers_within(GRACE, 0, 0).await?;
        WAITED_FOR
    } else {
        NOT_WAITED_FOR
    };
    room.by("starting the device plugin");
    room.cluster.start_plugin(node).await.context("with the plugin back")?;
    room.offers(ALL, ALL).await?;
    Ok(Seen::That(format!("allocatable 0 of {ALL}; {capacity}; {ALL} of {ALL} with the plugin back")))
}
