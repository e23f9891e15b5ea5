//! A second one of the plugin under test on the node, for the cases about two plugins of one resource, and whether the node
//! goes on advertising its devices meanwhile.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kind_driver::WAIT;
use kind_driver::status::phase;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams};
use tokio::time::Instant;

use super::case_context::{CaseContext, STEADY};

const NAME: &str = "second-plugin";
/// Its label, beside none of the first one's: whatever made that one would take it for its own and delete it.
const LABEL: (&str, &str) = ("plugin-conformance", "second-plugin");

impl CaseContext<'_> {
    fn second_plugins(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), &self.plugin.description().namespace)
    }

    /// Starts a second pod of the plugin on the node and waits until it runs. It need not be ready: a plugin may wait for
    /// the other's end.
    pub(crate) async fn start_second_plugin(&self) -> anyhow::Result<()> {
        self.step("starting a second device plugin");
        let second = second_of(&self.plugin_pod().await?).context("the plugin's pod has no spec")?;
        let created = self.second_plugins().create(&PostParams::default(), &second).await;
        created.context("creating the second plugin")?;
        WAIT.until("the second plugin to run", async || {
            Ok(self.second_plugins().get_opt(NAME).await?.is_some_and(|pod| phase(&pod) == "Running"))
        })
        .await
    }

    /// Ends the second plugin.
    pub(crate) async fn stop_second_plugin(&self) -> anyhow::Result<()> {
        self.step("stopping the second device plugin");
        self.remove_second_plugin().await
    }

    /// Removes the second plugin, if there is one, and waits until it is gone.
    pub(crate) async fn remove_second_plugin(&self) -> anyhow::Result<()> {
        let these = ListParams::default().labels(&format!("{}={}", LABEL.0, LABEL.1));
        let removed = self.second_plugins().delete_collection(&DeleteParams::default(), &these).await;
        removed.context("removing the second plugin")?;
        WAIT.until("the second plugin to be gone", async || {
            Ok(self.second_plugins().list_metadata(&these).await?.items.is_empty())
        })
        .await
    }

    /// Checks during this change, and for a while after it, that the node advertises every device, but for the time that
    /// the plugin may take to take over. Gives the longest time without them.
    pub(crate) async fn goes_on_advertising(
        &self,
        change: impl Future<Output = anyhow::Result<()>>,
    ) -> anyhow::Result<Duration> {
        let devices = self.devices();
        let allowed = self.plugin.description().takes_over_within.unwrap_or_default();
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
                    self.step(format!("checking for {} s that {devices} devices stay", STEADY.as_secs()));
                    end = Some(Instant::now() + STEADY);
                }
                () = tokio::time::sleep(WAIT.poll) => {}
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
fn second_of(first: &Pod) -> Option<Pod> {
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
