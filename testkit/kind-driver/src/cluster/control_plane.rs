//! The control plane's parts, which are static pods of kubelet: stopped, started, killed, and the default scheduler's
//! configuration.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;

use super::Cluster;
use super::node::process_name;
use crate::WAIT;
use crate::config::SCHEDULER_FILE;
use crate::status::is_ready;

/// Where kubelet finds static pods, and where it does not.
const MANIFESTS: &str = "/etc/kubernetes/manifests";
const AWAY: &str = "/etc/kubernetes/stopped";

/// A part of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlPlanePart {
    /// The API server.
    ApiServer,
    /// Its database.
    Etcd,
    /// The default scheduler.
    Scheduler,
    /// The controllers.
    ControllerManager,
}

impl ControlPlanePart {
    /// Its process, and its manifest without `.yaml`.
    pub fn name(self) -> &'static str {
        match self {
            ControlPlanePart::ApiServer => "kube-apiserver",
            ControlPlanePart::Etcd => "etcd",
            ControlPlanePart::Scheduler => "kube-scheduler",
            ControlPlanePart::ControllerManager => "kube-controller-manager",
        }
    }

    /// What kubeadm gives the part in its command line, and another program of the same name, such as a second scheduler
    /// whose configuration lies in `/etc/kubernetes` too, has not.
    fn credentials(self) -> &'static str {
        match self {
            ControlPlanePart::ApiServer | ControlPlanePart::Etcd => "=/etc/kubernetes/pki/",
            ControlPlanePart::Scheduler => "=/etc/kubernetes/scheduler.conf",
            ControlPlanePart::ControllerManager => "=/etc/kubernetes/controller-manager.conf",
        }
    }

    /// Whether nobody can ask for pods while it is away.
    fn is_needed_for_answers(self) -> bool {
        matches!(self, ControlPlanePart::ApiServer | ControlPlanePart::Etcd)
    }
}

impl Cluster {
    /// Takes a part's manifest away from kubelet and waits until the part no longer runs.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn stop_part(&self, part: ControlPlanePart) -> anyhow::Result<()> {
        let (node, name) = (self.control_plane(), part.name());
        let take = format!("mkdir -p {AWAY} && mv {MANIFESTS}/{name}.yaml {AWAY}/");
        self.exec(node, &take).await.with_context(|| format!("stopping {name}"))?;
        WAIT.until(&format!("{name} to end"), async || {
            // A mirror pod of a part without which nobody can ask for pods stays while the part is away.
            let is_listed = !part.is_needed_for_answers() && self.static_pod(part).await?.is_some();
            Ok(!is_listed && !self.runs(part).await?)
        })
        .await
    }

    /// Gives the manifest back and waits until the part serves.
    ///
    /// # Errors
    /// It does not in time.
    pub async fn start_part(&self, part: ControlPlanePart) -> anyhow::Result<()> {
        let (node, name) = (self.control_plane(), part.name());
        let give = format!("mv {AWAY}/{name}.yaml {MANIFESTS}/");
        self.exec(node, &give).await.with_context(|| format!("starting {name}"))?;
        WAIT.until(&format!("{name} to serve"), async || {
            if part.is_needed_for_answers() {
                return self.api_server_is_ready().await;
            }
            Ok(self.static_pod(part).await?.as_ref().is_some_and(is_ready))
        })
        .await
    }

    /// Kills a part and waits until another one serves, which kubelet starts.
    ///
    /// # Errors
    /// None does in time.
    pub async fn kill_part(&self, part: ControlPlanePart) -> anyhow::Result<()> {
        let (node, name) = (self.control_plane(), part.name());
        let before = self.process(node, name).await?;
        self.exec(node, &format!("pkill -KILL -x {}", process_name(name)))
            .await
            .with_context(|| format!("killing {name}"))?;
        WAIT.until(&format!("another {name} that serves"), async || {
            let now = self.process(node, name).await?;
            Ok(self.api_server_is_ready().await? && now.is_some() && now != before)
        })
        .await
    }

    /// Gives the default scheduler this configuration and restarts it, unless it has it already.
    ///
    /// # Errors
    /// The cluster was made without a configuration for it, or it does not come back in time.
    pub async fn configure_scheduler(&self, configuration: &str) -> anyhow::Result<()> {
        let path = self.scheduler_folder().join(SCHEDULER_FILE);
        let before = tokio::fs::read_to_string(&path).await;
        let before = before.with_context(|| {
            format!("cluster {} was made without a configuration of the scheduler", self.name())
        })?;
        if before == configuration {
            return Ok(());
        }
        tokio::fs::write(&path, configuration)
            .await
            .with_context(|| format!("writing {}", path.display()))?;
        self.stop_part(ControlPlanePart::Scheduler).await?;
        self.start_part(ControlPlanePart::Scheduler).await
    }

    async fn api_server_is_ready(&self) -> anyhow::Result<bool> {
        self.kubectl(&["get", "--raw", "/readyz"], "").await.map(|_| true)
    }

    async fn static_pod(&self, part: ControlPlanePart) -> anyhow::Result<Option<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client(), "kube-system");
        Ok(pods.get_opt(&format!("{}-{}", part.name(), self.control_plane())).await?)
    }

    /// Whether a process of the part runs that kubeadm's manifest started.
    async fn runs(&self, part: ControlPlanePart) -> anyhow::Result<bool> {
        let name = part.name();
        let command_lines = format!(
            "for id in $(pgrep -x {}); do tr '\\0' ' ' < /proc/$id/cmdline; echo; done 2>/dev/null || :",
            process_name(name)
        );
        Ok(self.exec(self.control_plane(), &command_lines).await?.contains(part.credentials()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_scheduler_is_not_taken_for_the_one_of_kubeadm() {
        let scheduler = ControlPlanePart::Scheduler.credentials();
        let of_kubeadm = "kube-scheduler --kubeconfig=/etc/kubernetes/scheduler.conf --leader-elect=false";
        assert!(of_kubeadm.contains(scheduler));
        let second = "kube-scheduler --config=/etc/kubernetes/my-scheduler/my-scheduler-config.yaml";
        assert!(!second.contains(scheduler));
    }
}
