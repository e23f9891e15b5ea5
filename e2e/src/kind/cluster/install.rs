//! Installs the suite from `deploy/`, as its README tells a deployer to, on fake hardware.

use futures::future::try_join_all;

use super::KindCluster;
use super::ioctl_agent::{AGENT_LABEL, agent_switch};
use super::plugin::{PLUGIN_LABEL, plugin_switch};

pub(super) const EXTENDER: &str = include_str!("../../../../deploy/k8s-neuron-scheduler-eks.yml");
const EXTENDER_POLICY: &str = include_str!("../../../../deploy/k8s-neuron-scheduler-policy.yml");
pub(super) const MY_SCHEDULER: &str = include_str!("../../../../deploy/my-scheduler.yml");
const PLUGIN: &str = include_str!("../../../../deploy/k8s-neuron-device-plugin.yml");
const PLUGIN_RBAC: &str = include_str!("../../../../deploy/k8s-neuron-device-plugin-rbac.yml");
const PLUGIN_POLICY: &str = include_str!("../../../../deploy/k8s-neuron-device-plugin-policy.yml");
const FAKE_NEURON: &str = include_str!("../../../../deploy/fake-neuron.yml");
const IOCTL_AGENT: &str = include_str!("../../../../deploy/fake-neuron-agent.yml");
const FAKE_ROOT_PATCH: &str = include_str!("../../../../deploy/fake-root-patch.yml");

/// The namespace of everything that is not a scenario's pod.
pub(crate) const SYSTEM: &str = "kube-system";
/// The device plugin's DaemonSet.
pub(crate) const PLUGIN_DAEMON_SET: &str = "neuron-device-plugin";
/// What is installed beside the device plugin.
const PARTS: [&str; 3] = ["deployment/k8s-neuron-scheduler", "deployment/my-scheduler", FAKE];
const FAKE: &str = "daemonset/fake-neuron";
/// The DaemonSet that answers ioctls, whose pods are updated by deleting them.
pub(super) const AGENT: &str = "fake-neuron-agent";
/// What finds the extender by its name.
pub(super) const DNS: &str = "deployment/coredns";
/// The image of my-scheduler without a tag.
const SCHEDULER_IMAGE: &str = "registry.k8s.io/kube-scheduler";
/// Label of nodes with fake hardware.
pub(super) const FAKE_LABEL: &str = "neuron-e2e/fake";

/// Everything that is installed before anything is patched.
pub(super) fn manifests() -> String {
    [FAKE_NEURON, IOCTL_AGENT, PLUGIN_RBAC, PLUGIN_POLICY, PLUGIN, EXTENDER_POLICY, EXTENDER, MY_SCHEDULER]
        .join("\n---\n")
}

/// These manifests for a cluster of this release, such as `v1.34.4`: my-scheduler must not be newer than its API server,
/// and a cluster has its own release's image already.
pub(super) fn of_release(manifests: &str, release: &str) -> String {
    let line_of_release = |line: &str| match line.split_once(SCHEDULER_IMAGE) {
        Some((before, _)) => format!("{before}{SCHEDULER_IMAGE}:{release}\n"),
        None => format!("{line}\n"),
    };
    manifests.lines().map(line_of_release).collect()
}

impl KindCluster {
    /// Applies every manifest. In a cluster that is used again the images may be newer than the pods, so these are
    /// restarted. The device plugin runs on no node before one is given hardware.
    pub(super) async fn install(&self, used_again: bool) -> anyhow::Result<()> {
        let (fake, off) = (format!("{FAKE_LABEL}=true"), format!("{PLUGIN_LABEL}=off"));
        let answered = format!("{AGENT_LABEL}-");
        self.driver.workers_have_joined().await?;
        let workers = self.workers().iter().map(String::as_str);
        let label: Vec<&str> = ["label", "--overwrite", "node"]
            .into_iter()
            .chain(workers)
            .chain([&*fake, &*off, &*answered])
            .collect();
        self.driver.kubectl(&label, "").await?;
        let manifests = of_release(&manifests(), &self.driver.release().await?);
        self.driver.kubectl(&["apply", "-f", "-"], &manifests).await?;
        let patch = ["-n", SYSTEM, "patch", "daemonset", PLUGIN_DAEMON_SET, "--patch", FAKE_ROOT_PATCH];
        self.driver.kubectl(&patch, "").await?;
        // What tests add: nodes whose plugin or whose agent is stopped.
        plugin_switch().install(&self.driver).await?;
        agent_switch().install(&self.driver).await?;
        if used_again {
            let restart = ["-n", SYSTEM, "rollout", "restart", "daemonset/neuron-device-plugin"];
            self.driver.kubectl(&[&restart[..], &PARTS[..]].concat(), "").await?;
            let of_agent = format!("name={AGENT}");
            self.driver.kubectl(&["-n", SYSTEM, "delete", "pods", "-l", &of_agent], "").await?;
            self.driver.rolled_out(SYSTEM, FAKE).await?;
        }
        Ok(())
    }

    /// Waits until everything that does not depend on hardware serves.
    ///
    /// # Errors
    /// A part does not in time.
    pub async fn installed(&self) -> anyhow::Result<()> {
        try_join_all(PARTS.iter().chain([&DNS]).map(|part| self.driver.rolled_out(SYSTEM, part))).await?;
        self.driver.daemon_set_is_ready(SYSTEM, AGENT).await
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn my_scheduler_has_the_clusters_release_and_is_else_as_deployed() {
        let read = |text: &str| serde_saphyr::from_multiple::<Value>(text).unwrap();
        let deployed = read(&manifests());
        let mut installed = read(&of_release(&manifests(), "v1.33.1"));
        let image = "/spec/template/spec/containers/0/image";
        let changed: Vec<_> = (0..deployed.len()).filter(|&at| deployed[at] != installed[at]).collect();
        let [only] = changed[..] else { panic!("{changed:?} changed") };
        assert_eq!(installed[only]["metadata"]["name"], "my-scheduler");
        let before = deployed[only].pointer(image).unwrap().clone();
        let after = std::mem::replace(installed[only].pointer_mut(image).unwrap(), before);
        assert_eq!(after, "registry.k8s.io/kube-scheduler:v1.33.1");
        assert_eq!(installed, deployed);
    }
}
