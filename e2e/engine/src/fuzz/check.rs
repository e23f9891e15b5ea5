//! Carries a plan out on the embedded cluster, action by action, and says what should not have happened. Called by
//! [`super::on_embedded`], also for smaller plans.

use std::time::Duration;

use anyhow::Context as _;

use super::plan::{Action, Plan};
use crate::cluster::Cluster as _;
use crate::embedded::{self, Embedded, Options};
use crate::outcome::{Outcome, PodOutcome};
use crate::run;
use crate::scenario::{DeviceState, Part};

/// What went wrong, one sentence each; empty if the plan passed. `timeout` bounds each wait; the cluster's own if none.
pub async fn failures(plan: &Plan, options: Options, timeout: Option<Duration>) -> Vec<String> {
    match attempt(plan, options, timeout).await {
        Ok(failures) => failures,
        Err(error) => vec![format!("{error:#}")],
    }
}

async fn attempt(plan: &Plan, options: Options, timeout: Option<Duration>) -> anyhow::Result<Vec<String>> {
    let on_it = plan.clone();
    embedded::on_cluster(&plan.scenario()?, options, async move |cluster| {
        let cluster = match timeout {
            Some(timeout) => cluster.with_timeout(timeout),
            None => cluster,
        };
        let failures = by_action(&cluster, &on_it).await;
        cluster.down().await.context("taking the embedded cluster down")?;
        failures
    })
    .await
}

async fn by_action(cluster: &Embedded, plan: &Plan) -> anyhow::Result<Vec<String>> {
    for (place, scenario) in plan.scenarios_by_action()?.iter().enumerate() {
        let at = || match plan.actions.get(place) {
            Some(_) => format!("action {}", place + 1),
            None => "when everything is deleted".to_owned(),
        };
        let finished = run::run(cluster, scenario).await.with_context(at)?;
        let mut failures = finished.failures;
        failures.extend(not_admitted(plan, place, &finished.outcome));
        if !failures.is_empty() {
            return Ok(failures.into_iter().map(|text| format!("{}: {text}", at())).collect());
        }
    }
    Ok(Vec::new())
}

/// Pods that failed though nothing on their node was broken, stopped or restarted since they were created: containers
/// of plans end with 0, so only kubelet's admission fails a pod.
pub fn not_admitted(plan: &Plan, now: usize, outcome: &Outcome) -> Vec<String> {
    let failed = outcome.pods.iter().filter(|(_, pod)| pod.phase == "Failed");
    let unexcused = failed.filter(|(name, pod)| {
        let created =
            plan.pods().find(|(_, planned)| planned.name == **name).map_or(plan.actions.len(), |(at, _)| at);
        let since = plan.actions.iter().take(now + 1).skip(created);
        !since.flat_map(Action::flat).any(|action| may_fail_admission(action, pod))
    });
    unexcused
        .map(|(name, pod)| format!("pod {name} failed: {}", pod.failure.as_deref().unwrap_or("no reason")))
        .collect()
}

/// Whether kubelet or plugin of the pod's node, or one of its devices, was away in this action.
fn may_fail_admission(action: &Action, pod: &PodOutcome) -> bool {
    let here = |node: &usize| pod.node.as_ref().is_none_or(|name| *name == format!("n{}", node + 1));
    match action {
        Action::Restart(part, node) | Action::Without(part, node, _) => {
            matches!(part, Part::Kubelet | Part::Plugin) && here(node)
        }
        Action::Device(node, _, state) => *state != DeviceState::Healthy && here(node),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::fuzz::plan::{NodePlan, PodPlan};

    /// A plan that creates `p`, with something that happens before and after.
    fn plan(before: Action, after: Action) -> Plan {
        let node = NodePlan { instance_type: "inf2.24xlarge".into(), lnc: None, devices: 6 };
        let pod = PodPlan { name: "p".into(), containers: Vec::new(), ends_after: None };
        let actions = vec![before, Action::Apply(vec![pod]), after];
        Plan { seed: 0, catalog: Default::default(), nodes: vec![node.clone(), node], actions }
    }

    fn nothing() -> Action {
        Action::Delete(Vec::new())
    }

    #[rstest]
    #[case::nothing_happened(nothing(), nothing(), true)]
    #[case::the_plugin_was_away_before(Action::Restart(Part::Plugin, 0), nothing(), true)]
    #[case::the_plugin_was_away(nothing(), Action::Restart(Part::Plugin, 0), false)]
    #[case::the_plugin_of_another_node_was_away(nothing(), Action::Restart(Part::Plugin, 1), true)]
    #[case::kubelet_was_stopped(nothing(), Action::Without(Part::Kubelet, 0, Vec::new()), false)]
    #[case::the_extender_was_away(nothing(), Action::Restart(Part::Extender, 0), true)]
    #[case::a_device_broke(nothing(), Action::Device(0, 1, DeviceState::Lost), false)]
    #[case::a_device_was_healed(nothing(), Action::Device(0, 1, DeviceState::Healthy), true)]
    fn a_pod_that_failed_without_an_excuse_is_found(
        #[case] before: Action,
        #[case] after: Action,
        #[case] is_found: bool,
    ) {
        let pod = PodOutcome { phase: "Failed".into(), node: Some("n1".into()), ..PodOutcome::default() };
        let outcome = Outcome { version: 1, pods: [("p".to_owned(), pod)].into() };
        let found = not_admitted(&plan(before, after), 2, &outcome);
        assert_eq!(found, if is_found { vec!["pod p failed: no reason"] } else { Vec::new() });
    }
}
