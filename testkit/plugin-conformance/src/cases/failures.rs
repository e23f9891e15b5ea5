//! The cases about what kubelet advertises when devices or the plugin fail: `device_plugin_failures_test.go`.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kind_driver::status::Amounts;
use kube::api::DeleteParams;

use crate::CaseOutcome;
use crate::case_context::CaseContext;
use crate::faulty_plugin::{DEVICES, Fault};
use crate::instance::Signal;

/// The pod of the case that has one.
const POD: &str = "device-plugin-failures-test";
/// After this kubelet forgets the capacity of a plugin that is gone (five minutes), and a minute.
const GRACE: Duration = Duration::from_secs(6 * 60);
/// What a case says of that time where it has waited for it, and where not.
const WAITED_FOR: &str = "0 of 0 after kubelet's five minutes";
const NOT_WAITED_FOR: &str = "kubelet's five minutes until 0 of 0 are waited for with --grace";

pub(super) async fn options_fail(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let all = context.devices();
    let plugin = context.faulty_plugin(Fault::OptionsFail).await?;
    let answer = plugin.register().await?.err().context("kubelet took a plugin without options")?;
    let text = answer.message();
    ensure!(
        text.contains("failed to get device plugin options")
            && text.contains("GetDevicePluginOptions failed"),
        "kubelet refused the faulty plugin for another reason: {text}"
    );
    context.is_left_alone(&plugin, Amounts::NONE).await?;
    context.advertises_all().await?;
    Ok(CaseOutcome::Passed(format!(
        "a faulty plugin: kubelet refuses it, calls nothing else and does not name its resource; the plugin under test \
         beside it goes on, {all} of {all}"
    )))
}

pub(super) async fn list_fails_at_once(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let all = context.devices();
    let plugin = context.faulty_plugin(Fault::ListFails).await?;
    plugin.register().await?.context("registering the faulty plugin")?;
    context.until_amounts(plugin.resource(), Amounts::of(0, 0)).await?;
    context.is_left_alone(&plugin, Amounts::of(0, 0)).await?;
    context.advertises_all().await?;
    Ok(CaseOutcome::Passed(format!(
        "a faulty plugin: 0 of 0, kubelet lists no second time; the plugin under test beside it goes on, {all} of {all}"
    )))
}

pub(super) async fn single_device(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.set_health(0, false).await?;
    context.advertises(0, 1).await?;
    context.set_health(0, true).await?;
    context.advertises(1, 1).await?;
    let also = context.stage.description().with_each_device.iter();
    let also: String = also
        .map(|also| {
            let (noun, count) = (&also.noun, also.count);
            format!("; its {noun} {count}, 0, {count} of {count}")
        })
        .collect();
    Ok(CaseOutcome::Passed(format!("allocatable 1, 0, 1 of 1{also}")))
}

pub(super) async fn single_device_in_use(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    context.run_pod(POD, 1).await?;
    context.advertises(1, 1).await?;
    context.set_health(0, false).await?;
    context.advertises(0, 1).await?;
    context.stays(POD, "Running").await?;
    context.delete(POD, DeleteParams::default()).await?;
    context.advertises(0, 1).await?;
    context.set_health(0, true).await?;
    context.advertises(1, 1).await?;
    Ok(CaseOutcome::Passed(
        "allocatable 1, 0 of 1 while the pod ran on, 0 of 1 after its deletion, 1 of 1 once healthy"
            .to_owned(),
    ))
}

pub(super) async fn several_devices(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let all = context.devices();
    let mut seen = vec![all.to_string()];
    let changes: [(&[u64], bool, u64); 5] = [
        (&[3], false, all - 1),
        (&[3], true, all),
        (&[1, 3], false, all - 2),
        (&[3], true, all - 1),
        (&[1], true, all),
    ];
    for (devices, healthy, allocatable) in changes {
        for device in devices {
            context.set_health(*device, healthy).await?;
        }
        context.advertises(allocatable, all).await?;
        seen.push(allocatable.to_string());
    }
    let also = context.stage.description().with_each_device.iter();
    let also: String = also.map(|also| format!(", each with {} {}", also.count, also.noun)).collect();
    Ok(CaseOutcome::Passed(format!("allocatable {} of {all}{also}", seen.join(", "))))
}

pub(super) async fn list_fails_later(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let faulty = context.faulty_plugin(Fault::ListFailsLater).await?;
    faulty.register().await?.context("registering the faulty plugin")?;
    context.until_amounts(faulty.resource(), Amounts::of(DEVICES, DEVICES)).await?;
    context.step("letting the faulty plugin's ListAndWatch fail");
    faulty.fail_now();
    context.until_amounts(faulty.resource(), Amounts::of(0, DEVICES)).await?;
    context.is_left_alone(&faulty, Amounts::of(0, DEVICES)).await?;
    let forgotten = if context.grace {
        context.until_amounts_within(GRACE, faulty.resource(), Amounts::of(0, 0)).await?;
        context.is_left_alone(&faulty, Amounts::of(0, 0)).await?;
        WAITED_FOR
    } else {
        NOT_WAITED_FOR
    };
    context.step(
        "killing the plugin under test as often as it starts, until kubelet has said that nothing is left",
    );
    let (all, resource) = (context.devices(), &context.stage.description().resource);
    context
        .stage
        .wait()
        .until(&format!("allocatable to be 0 of {all}"), async || {
            if Amounts::on(&context.node_object().await?, resource) == Amounts::of(0, all) {
                return Ok(true);
            }
            // It may not be there yet, or not any more: looked at again.
            if let Ok(plugin) = context.plugin().await {
                let _ended_already = context.signal_plugin(&plugin, Signal::Kill).await;
            }
            Ok(false)
        })
        .await?;
    context.step("waiting for the plugin under test to register by itself");
    context.advertises_everything_since(None).await?;
    let restarts = context.plugin_restarts().await?;
    Ok(CaseOutcome::Passed(format!(
        "a faulty plugin: 0 of {DEVICES}, kubelet lists no second time; {forgotten}; the plugin under test killed: 0 of \
         {all}, and {all} of {all} once it registered by itself after restart {restarts}"
    )))
}

pub(super) async fn plugin_stopped(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let all = context.devices();
    context.stop_plugin().await?;
    context.advertises(0, all).await?;
    let capacity = if context.grace {
        context.advertises_within(GRACE, 0, 0).await?;
        WAITED_FOR
    } else {
        NOT_WAITED_FOR
    };
    context.start_plugin().await.context("with the plugin back")?;
    Ok(CaseOutcome::Passed(format!(
        "allocatable 0 of {all}; {capacity}; {all} of {all} with the plugin back"
    )))
}
