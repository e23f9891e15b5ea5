//! A second one of the plugin under test on the node, for the cases about two plugins of one resource, and whether the node
//! goes on advertising its devices meanwhile.

use std::time::Duration;

use anyhow::ensure;
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::api::ObjectMeta;
use tokio::time::Instant;

use super::case_context::CaseContext;

/// Its pod's name.
pub(crate) const NAME: &str = "second-plugin";
/// Its label, beside none of the first one's: whatever made that one would take it for its own and delete it.
pub(crate) const LABEL: (&str, &str) = ("plugin-conformance", "second-plugin");

impl CaseContext<'_> {
    /// Starts a second plugin on the node.
    pub(crate) async fn start_second_plugin(&self) -> anyhow::Result<()> {
        self.step("starting a second device plugin");
        self.stage.start_second_plugin().await
    }

    /// Ends the second plugin.
    pub(crate) async fn stop_second_plugin(&self) -> anyhow::Result<()> {
        self.step("stopping the second device plugin");
        self.stage.remove_second_plugin().await
    }

    /// Checks during this change, and for a while after it, that the node advertises every device, but for the time that
    /// the plugin may take to take over. Gives the longest time without them.
    pub(crate) async fn goes_on_advertising(
        &self,
        change: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Duration> {
        let devices = self.devices();
        let allowed = self.stage.description().takes_over_within.unwrap_or_default();
        let (mut gap, mut end) = (Gap::default(), None);
        tokio::pin!(change);
        loop {
            gap.look(self.has(&self.node_object().await?, devices, devices), Instant::now());
            ensure!(
                gap.longest <= allowed,
                "the node did not advertise its {devices} devices for {:.1} s; one plugin may take {:.1} s to take over",
                gap.longest.as_secs_f64(),
                allowed.as_secs_f64()
            );
            if end.is_some_and(|end| Instant::now() >= end) && gap.since.is_none() {
                return Ok(gap.longest);
            }
            tokio::select! {
                changed = &mut change, if end.is_none() => {
                    changed?;
                    self.step(format!("checking for {} s that {devices} devices stay", self.stage.steady().as_secs_f64()));
                    end = Some(Instant::now() + self.stage.steady());
                }
                () = tokio::time::sleep(self.stage.wait().poll) => {}
            }
        }
    }
}

/// The time for which a node did not advertise all of its devices.
#[derive(Default)]
struct Gap {
    /// Since when it does not; none while it does.
    since: Option<Instant>,
    /// The longest time without a break.
    longest: Duration,
}

impl Gap {
    /// Notes whether it advertises everything now.
    fn look(&mut self, everything: bool, now: Instant) {
        if let Some(since) = self.since {
            self.longest = self.longest.max(now - since);
        }
        self.since = if everything { None } else { self.since.or(Some(now)) };
    }
}

/// A pod that runs the same beside this one on its node.
pub(crate) fn second_of(first: &Pod) -> Option<Pod> {
    let metadata = ObjectMeta {
        name: Some(NAME.to_owned()),
        namespace: first.metadata.namespace.clone(),
        labels: Some([(LABEL.0.to_owned(), LABEL.1.to_owned())].into()),
        ..ObjectMeta::default()
    };
    // It names its node. Rules for nodes are for who takes the first one off them.
    let spec = PodSpec { affinity: None, ..first.spec.clone()? };
    Some(Pod { metadata, spec: Some(spec), status: None })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_second_plugin_is_nobodys_but_the_cases_and_stays_on_the_node() {
        let first: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": "toy-x", "namespace": "kube-system", "uid": "u", "labels": {"app": "toy"},
                "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "toy", "uid": "d"}],
            },
            "spec": {"nodeName": "n1", "affinity": {}, "containers": [{"name": "main", "image": "toy"}]},
            "status": {"phase": "Running"},
        }))
        .unwrap();
        assert_eq!(
            serde_json::to_value(second_of(&first)).unwrap(),
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {
                    "name": NAME, "namespace": "kube-system", "labels": {"plugin-conformance": "second-plugin"},
                },
                "spec": {"nodeName": "n1", "containers": [{"name": "main", "image": "toy"}]},
            })
        );
    }

    #[test]
    fn the_longest_time_without_all_devices_counts() {
        let (mut gap, began) = (Gap::default(), Instant::now());
        let mut look = |millis, everything| gap.look(everything, began + Duration::from_millis(millis));
        for (millis, everything) in [(0, true), (1000, false), (2000, false), (3000, true), (9000, true)] {
            look(millis, everything);
        }
        look(10_000, false);
        look(10_500, false);
        assert_eq!(gap.longest, Duration::from_secs(2));
        assert!(gap.since.is_some());
    }
}
