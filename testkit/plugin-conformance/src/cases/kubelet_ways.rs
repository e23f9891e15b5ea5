//! The cases about what kubelet really does, which Kubernetes' own tests leave out: docs/reference/kubernetes.md §6 and §7. Their
//! kubelet must be in the kit's hands, so that they are of the embedded node alone.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use fake_cluster::kubelet::PluginCall;
use kube::api::DeleteParams;
use kubelet_api::deviceplugin::v1beta1::ContainerAllocateResponse;

use crate::CaseOutcome;
use crate::case_context::{CaseContext, MAIN};
use crate::embedded::EmbeddedNode;

/// The pod of a case.
const POD: &str = "device-plugin-test";
/// How long kubelet is away after it has removed the sockets: a real one that starts is, until it is ready.
const AWAY: Duration = Duration::from_secs(3);

/// Whatever fails here fails by what a plugin does when it starts.
pub(super) async fn dialled_back(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    let said = node.said().said();
    context.replace_plugin().await?;
    let mut endpoints = Vec::new();
    for call in node.said().calls_since(said) {
        let PluginCall::Registered { endpoint, answer, .. } = call else { continue };
        if let Err(why) = answer {
            anyhow::bail!("kubelet dialled the plugin back while Register was open, and refused it: {why}");
        }
        endpoints.push(endpoint);
    }
    Ok(CaseOutcome::Passed(format!("answered while Register was open, at {}", endpoints.join(", "))))
}

pub(super) async fn lost_stream(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    let said = node.said().said();
    context.step("ending the plugin's stream, while kubelet and its sockets stay");
    node.lose_streams().await?;
    node.registers_since(said, "the plugin to register again, as its ListAndWatch was ended").await?;
    context.advertises_all().await?;
    Ok(CaseOutcome::Passed("registered again, and everything is advertised".to_owned()))
}

pub(super) async fn removed_sockets(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    context.stop_kubelet().await?;
    context.step(format!("removing all sockets, and kubelet.sock does not come for {} s", AWAY.as_secs()));
    node.remove_sockets()?;
    // What the plugin does meanwhile must come to nothing, and be done again.
    tokio::time::sleep(AWAY).await;
    let said = node.said().said();
    context.start_kubelet_alone().await?;
    node.registers_since(said, "the plugin to register with a kubelet that came late").await?;
    context.advertises_all().await?;
    Ok(CaseOutcome::Passed(format!(
        "registered with a kubelet whose socket came {} s after all were removed",
        AWAY.as_secs()
    )))
}

pub(super) async fn same_inode(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    node.keep_inode(true);
    let restarted = async {
        context.stop_kubelet().await?;
        node.remove_sockets()?;
        let said = node.said().said();
        context.start_kubelet_alone().await?;
        node.registers_since(
            said,
            "the plugin to register with a kubelet whose socket has the inode of the last",
        )
        .await
    };
    let restarted = restarted.await;
    node.keep_inode(false);
    restarted?;
    context.advertises_all().await?;
    Ok(CaseOutcome::Passed("registered again at a kubelet.sock of the same inode".to_owned()))
}

pub(super) async fn no_id_vanishes(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    let changes_health = context.stage.description().sets_health;
    if changes_health {
        let all = context.devices();
        context.set_health(0, false).await?;
        context.until_allocatable(all - 1).await?;
        context.set_health(0, true).await?;
        context.until_allocatable(all).await?;
    }
    let calls = node.said().calls_since(0);
    let lists = never_shrinks(&calls)?;
    let health = if changes_health { "" } else { "; nothing is known that makes a device unhealthy" };
    Ok(CaseOutcome::Passed(format!(
        "in {lists} lists of this run no id that was there before is missing{health}"
    )))
}

/// How many lists there were. Each has the ids of the list before it on the same stream.
fn never_shrinks(calls: &[PluginCall]) -> anyhow::Result<usize> {
    let (mut last, mut lists) = (BTreeMap::<&str, BTreeSet<&String>>::new(), 0);
    for call in calls {
        match call {
            PluginCall::Registered { endpoint, .. } => {
                last.remove(endpoint.as_str());
            }
            PluginCall::Listed { endpoint, devices, .. } => {
                lists += 1;
                let ids: BTreeSet<&String> = devices.keys().collect();
                let before = last.insert(endpoint, ids.clone()).unwrap_or_default();
                let missing: Vec<&&String> = before.difference(&ids).collect();
                ensure!(
                    missing.is_empty(),
                    "{missing:?} vanished from ListAndWatch: kubelet panics where that comes amid an Allocate of it; list \
                     it as Unhealthy"
                );
            }
            PluginCall::Preferred { .. } | PluginCall::Allocated { .. } => {}
        }
    }
    Ok(lists)
}

pub(super) async fn checkpoint(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    context.run_pod(POD, 1).await?;
    let (ids, listed) = (context.sees(POD, MAIN).await?, node.said().last_ids());
    context.stop_kubelet().await?;
    let said = node.said().said();
    context.start_kubelet_alone().await?;
    node.registers_since(said, "the plugin to register with the restarted kubelet").await?;
    context.advertises_all().await?;
    let again = node.said().last_ids();
    ensure!(
        listed == again,
        "the ids were {listed:?} and are {again:?} after kubelet's restart: its checkpoint still says that a pod has {ids:?}"
    );
    context.kubelet_says(POD, MAIN, &ids).await?;
    let asked =
        node.said().calls_since(said).into_iter().find(|call| matches!(call, PluginCall::Allocated { .. }));
    ensure!(asked.is_none(), "kubelet asked again for what its checkpoint has: {asked:?}");
    let rest = context.devices() - 1;
    if rest > 0 {
        context.run_pod("the-rest", rest).await?;
        let others = context.sees("the-rest", MAIN).await?;
        ensure!(others.iter().all(|id| !ids.contains(id)), "two pods have {ids:?}: the other has {others:?}");
    }
    Ok(CaseOutcome::Passed(format!(
        "{} restored, Allocate not called again, the ids as before, the other {rest} for another pod",
        ids.join(", ")
    )))
}

pub(super) async fn preferred_ignored(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    let said = node.said().said();
    let (preferred, as_preferred) = allocated(context, node).await?;
    let is_asked = |call: &PluginCall| matches!(call, PluginCall::Preferred { .. });
    if !node.said().calls_since(said).iter().any(is_asked) {
        return Ok(CaseOutcome::NotApplicable(
            "this plugin is not asked which devices it prefers".to_owned(),
        ));
    }
    context.step("giving the next pod other devices than the plugin prefers");
    node.ignore_preferences(true).await?;
    let other = allocated(context, node).await;
    node.ignore_preferences(false).await?;
    let (ids, answer) = other?;
    if ids == preferred {
        return Ok(CaseOutcome::NotApplicable(format!("only {preferred:?} could be given")));
    }
    ensure!(
        answer != as_preferred,
        "Allocate was asked for {ids:?} and answered as for {preferred:?}, which the plugin had preferred: {answer:?}"
    );
    Ok(CaseOutcome::Passed(format!("preferred {preferred:?}, was asked for {ids:?}, and answered for these")))
}

/// The ids that a pod with one device is given, and what the plugin answers for them. The pod is gone again.
async fn allocated(
    context: &CaseContext<'_>,
    node: &EmbeddedNode,
) -> anyhow::Result<(BTreeSet<String>, ContainerAllocateResponse)> {
    let said = node.said().said();
    context.run_pod(POD, 1).await?;
    let call = node.said().calls_since(said).into_iter().rev().find_map(|call| match call {
        PluginCall::Allocated { ids, answer: Ok(answers), .. } => Some((ids, answers)),
        _ => None,
    });
    let (ids, answers) = call.context("the pod runs and the plugin was not asked")?;
    context.delete(POD, DeleteParams::default()).await?;
    Ok((ids, answers.into_iter().next().unwrap_or_default()))
}

pub(super) async fn answers(context: &CaseContext<'_>) -> anyhow::Result<CaseOutcome> {
    let Some(node) = context.stage.embedded() else { return on_kind() };
    let said = node.said().said();
    context.run_pod(POD, context.devices()).await?;
    let mut seen = String::new();
    for call in node.said().calls_since(said) {
        let PluginCall::Allocated { ids, answer: Ok(answers), .. } = call else { continue };
        let [answer] = answers.as_slice() else {
            anyhow::bail!("Allocate of {ids:?} for one container has {} answers, not one", answers.len());
        };
        can_be_carried_out(answer).with_context(|| format!("Allocate's answer for {ids:?}"))?;
        let (nodes, mounts, variables) = (answer.devices.len(), answer.mounts.len(), answer.envs.len());
        seen = format!("{} devices: {nodes} device nodes, {mounts} mounts, {variables} variables", ids.len());
    }
    ensure!(!seen.is_empty(), "the pod runs and the plugin was not asked");
    Ok(CaseOutcome::Passed(seen))
}

/// Checks what a container runtime would refuse.
fn can_be_carried_out(answer: &ContainerAllocateResponse) -> anyhow::Result<()> {
    let mut there = BTreeSet::new();
    let nodes = answer.devices.iter().map(|node| (&node.host_path, &node.container_path));
    for (host, container) in
        nodes.chain(answer.mounts.iter().map(|one| (&one.host_path, &one.container_path)))
    {
        for path in [host, container] {
            ensure!(path.starts_with('/'), "{path:?} is no absolute path");
        }
        ensure!(there.insert(container), "{container} comes twice");
    }
    for node in &answer.devices {
        let known =
            !node.permissions.is_empty() && node.permissions.chars().all(|letter| "rwm".contains(letter));
        ensure!(
            known,
            "{} has the permissions {:?}, which are not of r, w and m",
            node.container_path,
            node.permissions
        );
    }
    ensure!(
        !answer.envs.keys().any(|name| name.is_empty() || name.contains(['=', '\0'])),
        "a variable's name is none: {:?}",
        answer.envs.keys()
    );
    Ok(())
}

/// The CDI case of Kubernetes, without a container runtime: names that one would find.
pub(super) async fn cdi(context: &CaseContext<'_>, node: &EmbeddedNode) -> anyhow::Result<CaseOutcome> {
    let said = node.said().said();
    context.run_pod(POD, 1).await?;
    let names: Vec<String> = node
        .said()
        .calls_since(said)
        .into_iter()
        .filter_map(|call| match call {
            PluginCall::Allocated { answer: Ok(answers), .. } => Some(answers),
            _ => None,
        })
        .flatten()
        .flat_map(|answer| answer.cdi_devices)
        .map(|device| device.name)
        .collect();
    if names.is_empty() {
        return Ok(CaseOutcome::NotApplicable("this plugin hands out no CDI devices".to_owned()));
    }
    for name in &names {
        ensure!(is_cdi_name(name), "{name:?} is no name of a CDI device: vendor.example/class=name");
    }
    Ok(CaseOutcome::Passed(format!("{}; no runtime injects it here", names.join(", "))))
}

/// Whether the name is `vendor/class=device`, as CDI has it.
fn is_cdi_name(name: &str) -> bool {
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_alphanumeric())
            && word.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter))
    };
    let parts = name.split_once('/').and_then(|(vendor, rest)| Some((vendor, rest.split_once('=')?)));
    parts.is_some_and(|(vendor, (class, device))| is_word(vendor) && is_word(class) && is_word(device))
}

fn on_kind() -> anyhow::Result<CaseOutcome> {
    let why = "kubelet is a program of its own there; the embedded cluster has this case";
    Ok(CaseOutcome::NotApplicable(why.to_owned()))
}

#[cfg(test)]
mod tests {
    use kubelet_api::deviceplugin::v1beta1::{DeviceSpec, HEALTHY};

    use super::*;

    fn listed(endpoint: &str, ids: &[&str]) -> PluginCall {
        let devices = ids.iter().map(|id| ((*id).to_owned(), HEALTHY.to_owned())).collect();
        PluginCall::Listed { resource: "r".to_owned(), endpoint: endpoint.to_owned(), devices }
    }

    #[test]
    fn an_id_may_be_missing_only_after_another_registration() {
        let registered =
            PluginCall::Registered { resource: "r".to_owned(), endpoint: "a".to_owned(), answer: Ok(()) };
        let calls = [listed("a", &["1", "2"]), listed("b", &["3"]), registered, listed("a", &["1"])];
        assert_eq!(never_shrinks(&calls).unwrap(), 3);
        let why = never_shrinks(&[listed("a", &["1", "2"]), listed("a", &["2"])]).unwrap_err().to_string();
        assert!(why.starts_with("[\"1\"] vanished from ListAndWatch"), "{why}");
    }

    #[test]
    fn what_a_runtime_refuses_is_named() {
        let node = |container: &str, permissions: &str| DeviceSpec {
            container_path: container.to_owned(),
            host_path: "/dev/null".to_owned(),
            permissions: permissions.to_owned(),
        };
        let why = |devices: Vec<DeviceSpec>| {
            let answer = ContainerAllocateResponse { devices, ..ContainerAllocateResponse::default() };
            can_be_carried_out(&answer).err().map(|why| why.to_string()).unwrap_or_default()
        };
        assert_eq!(why(vec![node("/dev/a", "rw"), node("/dev/b", "rwm")]), "");
        assert_eq!(why(vec![node("dev/a", "rw")]), "\"dev/a\" is no absolute path");
        assert_eq!(why(vec![node("/dev/a", "rw"), node("/dev/a", "rw")]), "/dev/a comes twice");
        assert!(why(vec![node("/dev/a", "")]).starts_with("/dev/a has the permissions \"\""));
    }

    #[test]
    fn a_cdi_device_has_vendor_class_and_name() {
        assert!(is_cdi_name("vendor.example/gpu=gpu0"));
        for wrong in ["gpu0", "vendor.example/gpu", "vendor.example=gpu0", "/gpu=0", "v/c="] {
            assert!(!is_cdi_name(wrong), "{wrong}");
        }
    }
}
