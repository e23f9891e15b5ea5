//! Leases short enough for leaders that are killed every few seconds: with those deployed hardly anybody would lead. Called
//! by [`super::scheduling`].

use neuron_e2e_engine::scheduler_configuration::SHORT_LEASE;

/// How long a leader that was killed is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leases {
    /// 15 seconds, as deployed.
    Deployed,
    /// Four.
    Short,
}

/// The line of the extender's manifest after which its Lease's duration is set.
const EXTENDER_ELECTS: &str = "- {name: NEURON_LEADER_ELECT, value: \"true\"}";
/// The line of my-scheduler's configurations after which its Lease's times are set.
const SCHEDULER_ELECTS: &str = "leaderElect: true";

/// These manifests of extender and my-scheduler with short Leases.
pub(super) fn with_short_leases(manifests: &str) -> String {
    let [lease, renewal, retry] = SHORT_LEASE;
    let of_extender = format!("- {{name: NEURON_LEADER_ELECT_LEASE_DURATION, value: {lease}}}");
    let of_scheduler = [
        format!("leaseDuration: {lease}"),
        format!("renewDeadline: {renewal}"),
        format!("retryPeriod: {retry}"),
    ];
    let lines = manifests.lines().flat_map(|line| {
        let added = match line.trim_start() {
            EXTENDER_ELECTS => std::slice::from_ref(&of_extender),
            SCHEDULER_ELECTS => &of_scheduler,
            _ => &[],
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        std::iter::once(format!("{line}\n"))
            .chain(added.iter().map(move |added| format!("{indent}{added}\n")))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::install::{EXTENDER, MY_SCHEDULER};
    use super::*;

    fn read(text: &str) -> Vec<Value> {
        serde_saphyr::from_multiple(text).unwrap()
    }

    #[test]
    fn the_extender_is_told_its_lease_and_nothing_else_changes() {
        let mut changed = read(&with_short_leases(EXTENDER));
        let deployment = changed.iter_mut().find(|object| object["kind"] == "Deployment").unwrap();
        let env = deployment.pointer_mut("/spec/template/spec/containers/0/env").unwrap();
        let env = env.as_array_mut().unwrap();
        let place = env.iter().position(|variable| variable["name"] == "NEURON_LEADER_ELECT_LEASE_DURATION");
        assert_eq!(env.remove(place.unwrap())["value"], "4s");
        assert_eq!(changed, read(EXTENDER));
    }

    #[test]
    fn my_scheduler_is_told_its_lease_over_http_and_https() {
        let changed = read(&with_short_leases(MY_SCHEDULER));
        let configs =
            changed.iter().find(|object| object["kind"] == "ConfigMap").unwrap()["data"].as_object();
        let elections: Vec<Value> = configs
            .unwrap()
            .values()
            .map(|text| {
                serde_saphyr::from_str::<Value>(text.as_str().unwrap()).unwrap()["leaderElection"].take()
            })
            .collect();
        let election = json!({
            "leaderElect": true,
            "leaseDuration": "4s",
            "renewDeadline": "3s",
            "retryPeriod": "1s",
            "resourceName": "my-scheduler",
            "resourceNamespace": "kube-system",
        });
        assert_eq!(elections, [election.clone(), election]);
    }
}
