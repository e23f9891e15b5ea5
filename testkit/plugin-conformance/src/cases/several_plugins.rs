//! The cases about two plugins of one resource on one node: `device_plugin_multiple_test.go`, new in Kubernetes 1.37.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use kind_driver::status::Amounts;
use kube::api::DeleteParams;
use testkit_support::Release;

use crate::CaseOutcome;
use crate::case_context::{CaseContext, MAIN};
use crate::faulty_plugin::Fault;

/// The pod that runs before there is a second plugin, the one that comes while there are two, and the one after.
const PODS: [&str; 3] = ["device-plugin-multiple-1", "device-plugin-multiple-2", "device-plugin-multiple-3"];
/// The minor version of Kubernetes whose kubelet is the first to keep several plugins of a resource.
const SEVERAL: (u32, u32) = (1, 37);

pub(super) async fn rollout(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    if let Some(why) = not_applicable(context).await? {
        return Ok(CaseOutcome::NotApplicable(why));
    }
    context.run_pod(PODS[0], 1).await?;
    let came = context.goes_on_advertising(context.start_second_plugin()).await?;
    context.run_pod(PODS[1], 1).await?;
    let went = context.goes_on_advertising(context.stop_plugin()).await?;
    let ids = third_pod(context).await?;
    Ok(CaseOutcome::Passed(format!(
        "{}; a pod while there were two and one after the first's end: {ids}",
        advertised(context, came.max(went))
    )))
}

pub(super) async fn slow_start(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    if let Some(why) = not_applicable(context).await? {
        return Ok(CaseOutcome::NotApplicable(why));
    }
    context.run_pod(PODS[0], 1).await?;
    let resource = &context.stage.description().resource;
    context.step("registering a second plugin of the resource, whose options fail");
    let failing = context.stage.faulty_plugin(resource.clone(), Fault::OptionsFail).await;
    let failing = failing.context("starting the second plugin")?;
    let answer = failing.register().await?.err().context("kubelet took a plugin without options")?;
    let text = answer.message();
    ensure!(
        text.contains("failed to get device plugin options"),
        "kubelet refused the second plugin for another reason: {text}"
    );
    let all = context.devices();
    context.is_left_alone(&failing, Amounts::of(all, all)).await?;
    context.run_pod(PODS[1], 1).await?;
    drop(failing);
    let came = context.goes_on_advertising(context.start_second_plugin()).await?;
    let went = context.goes_on_advertising(context.stop_plugin()).await?;
    let ids = third_pod(context).await?;
    Ok(CaseOutcome::Passed(format!(
        "a second plugin whose options fail is refused and changes nothing; with one that works {}; a pod before it and one \
         after the first's end: {ids}",
        advertised(context, came.max(went))
    )))
}

pub(super) async fn changed_mind(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    if let Some(why) = not_applicable(context).await? {
        return Ok(CaseOutcome::NotApplicable(why));
    }
    context.run_pod(PODS[0], 1).await?;
    let came = context.goes_on_advertising(context.start_second_plugin()).await?;
    context.run_pod(PODS[1], 1).await?;
    let went = context.goes_on_advertising(context.stop_second_plugin()).await?;
    let ids = third_pod(context).await?;
    Ok(CaseOutcome::Passed(format!(
        "{}; a pod while there were two and one after the second's end: {ids}",
        advertised(context, came.max(went))
    )))
}

/// Why the cases ask nothing of this kubelet or this plugin; none where they do.
async fn not_applicable(context: &CaseContext<'_>) -> anyhow::Result<Option<String>> {
    if context.stage.description().takes_over_within.is_none() {
        return Ok(Some("two of this plugin must not run on one node".to_owned()));
    }
    Ok(keeps_one(context.kubelet_release().await?))
}

/// Why a kubelet of this release has no such case; none from 1.37 on.
fn keeps_one(kubelet: Release) -> Option<String> {
    let (major, minor) = SEVERAL;
    (!kubelet.is_since(SEVERAL)).then(|| {
        format!("kubelet {kubelet} keeps one plugin of a resource, the newest; several are kept from {major}.{minor} on")
    })
}

/// Ends the first pod and runs the third; what the second and the third see, which must differ.
async fn third_pod(context: &CaseContext<'_>) -> anyhow::Result<String> {
    context.delete(PODS[0], DeleteParams::default()).await?;
    context.run_pod(PODS[2], 1).await?;
    let (second, third) = (context.sees(PODS[1], MAIN).await?, context.sees(PODS[2], MAIN).await?);
    ensure!(second != third, "two pods have {second:?}");
    context.kubelet_says(PODS[1], MAIN, &second).await?;
    context.kubelet_says(PODS[2], MAIN, &third).await?;
    Ok(format!("{}, {}", second.join(", "), third.join(", ")))
}

/// What was advertised while the plugins came and went, with the longest time without.
fn advertised(context: &CaseContext<'_>, without: Duration) -> String {
    let all = context.devices();
    if without.is_zero() {
        format!("{all} of {all} all the time")
    } else {
        format!("{all} of {all} but for {:.1} s in which one took over", without.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kubelet_that_keeps_one_plugin_says_so_by_its_release() {
        let why = keeps_one("v1.34.4".parse().unwrap()).unwrap();
        assert!(why.starts_with("kubelet v1.34.4 keeps one plugin of a resource"), "{why}");
        assert_eq!(keeps_one("v1.37.2".parse().unwrap()), None);
    }
}
