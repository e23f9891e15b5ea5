//! What cases ask of the embedded node. Called by `crate::stage`.

use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fake_cluster::kubelet::PluginCall;
use jiff::Timestamp;
use kind_driver::pod_resources::{self, Assignments};
use serde_json::Value;
use testkit_support::Wait;

use super::EmbeddedNode;
use super::containers::Containers;
use crate::faulty_plugin::{Fault, FaultyPlugin};
use crate::instance::{ContainerOf, Instance, Signal};
use crate::plugin::{Description, Devices, Preparation, Report};

/// Longer than any back-off of kubelet's before it starts a container again, which is five minutes.
const BACK_OFF: Duration = Duration::from_secs(6 * 60);

impl EmbeddedNode {
    pub(crate) fn client(&self) -> kube::Client {
        self.server.client()
    }

    pub(crate) fn node(&self) -> &str {
        &self.config.node
    }

    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    pub(crate) fn wait(&self) -> Wait {
        self.plugin.wait
    }

    pub(crate) fn steady(&self) -> Duration {
        self.plugin.steady
    }

    pub(crate) fn container(&self, ends_after: Option<Duration>) -> Value {
        Containers::container(ends_after)
    }

    pub(crate) fn report(&self, log: &str) -> Option<Report> {
        Containers::report(log)
    }

    pub(crate) async fn prepare(&self, devices: Devices) -> anyhow::Result<Preparation> {
        self.ensure_kubelet().await?;
        self.heal().await?;
        let prepared = self.with_devices(devices).await;
        self.ensure_plugin().await;
        Ok(prepared)
    }

    pub(crate) async fn stop_kubelet(&self) -> anyhow::Result<()> {
        self.end_kubelet().await
    }

    pub(crate) async fn start_kubelet(&self) -> anyhow::Result<Timestamp> {
        let began = self.server.clock().now();
        self.tick();
        self.ensure_kubelet().await?;
        Ok(began)
    }

    pub(crate) async fn kill_container(&self, container: &ContainerOf<'_>) -> anyhow::Result<()> {
        let kubelet = self.kubelet.lock().await;
        let kubelet = kubelet.as_ref().context("kubelet is stopped")?;
        let killed = kubelet.kill_container(uid_of(container), container.name).await;
        ensure!(killed, "container {} does not run", container.name);
        // It backs off from the third start on.
        self.pass(BACK_OFF);
        Ok(())
    }

    pub(crate) async fn has_container(&self, container: &ContainerOf<'_>) -> anyhow::Result<bool> {
        Ok(self.containers.is_running(uid_of(container), container.name))
    }

    /// As after a reboot: nothing of what ran is known any more.
    pub(crate) async fn kill_containers(&self, _except: Option<&Instance>) -> anyhow::Result<()> {
        ensure!(self.kubelet.lock().await.is_none(), "kubelet runs, and would start them again");
        let file = self.config.containers_file();
        std::fs::remove_file(&file).with_context(|| format!("removing {}", file.display()))?;
        self.containers.kill_all();
        Ok(())
    }

    pub(crate) async fn assignments(&self) -> anyhow::Result<Assignments> {
        let channel = kubelet_api::unix::connect(&self.config.podresources_socket()).await?;
        pod_resources::of(channel, &self.plugin.resource).await
    }

    pub(crate) async fn faulty_plugin(&self, resource: String, fault: Fault) -> anyhow::Result<FaultyPlugin> {
        FaultyPlugin::in_folder(&self.config.plugins_dir(), resource, fault)
    }

    pub(crate) async fn plugins(&self) -> anyhow::Result<Vec<Instance>> {
        let plugins = self.plugins.lock().await;
        let instance = |process: &super::process::Process| Instance {
            id: process.id.to_string(),
            is_ready: process.is_running(),
            restarts: process.restarts(),
            pod: None,
        };
        Ok(plugins.iter().flatten().map(instance).collect())
    }

    pub(crate) async fn signal_plugin(&self, plugin: &Instance, signal: Signal) -> anyhow::Result<()> {
        let plugins = self.plugins.lock().await;
        let found = plugins.iter().flatten().find(|process| process.id.to_string() == plugin.id);
        found.context("the plugin was replaced")?.signal(signal).await
    }

    /// Ends the plugin and starts another, which has registered when this returns.
    pub(crate) async fn replace_plugin(&self, _before: &Instance) -> anyhow::Result<Option<Timestamp>> {
        self.end_plugin(0).await;
        let said = self.containers.said();
        self.ensure_plugin().await;
        self.registers_since(said, "another plugin to register").await?;
        Ok(None)
    }

    pub(crate) async fn stop_plugin(&self) -> anyhow::Result<()> {
        self.end_plugin(0).await;
        Ok(())
    }

    pub(crate) async fn keep_plugin_away(&self) -> anyhow::Result<()> {
        self.stop_plugin().await
    }

    pub(crate) async fn start_plugin(&self) -> anyhow::Result<()> {
        self.ensure_plugin().await;
        Ok(())
    }

    pub(crate) async fn start_second_plugin(&self) -> anyhow::Result<()> {
        let mut plugins = self.plugins.lock().await;
        ensure!(plugins[1].is_none(), "there is a second plugin already");
        plugins[1] = Some(self.new_process());
        Ok(())
    }

    pub(crate) async fn remove_second_plugin(&self) -> anyhow::Result<()> {
        self.end_plugin(1).await;
        Ok(())
    }

    pub(crate) async fn set_health(&self, device: u64, healthy: bool) -> anyhow::Result<()> {
        self.change_health(device, healthy).await
    }

    /// The error with the plugin's last lines. The plugin starts anew for the next case, and what it left goes.
    pub(crate) async fn failed(&self, _case: &str, error: anyhow::Error) -> anyhow::Error {
        let error = self.with_log(error);
        self.end_plugin(1).await;
        self.end_plugin(0).await;
        // kubelet removes sockets when it starts, and must run for the pods of the case to go.
        let _stopped_already = self.end_kubelet().await;
        match self.ensure_kubelet().await {
            Ok(()) => error,
            Err(why) => error.context(format!("and then kubelet did not start: {why:#}")),
        }
    }

    /// Waits until the plugin has registered its resource after that was said.
    pub(crate) async fn registers_since(&self, said: usize, what: &str) -> anyhow::Result<()> {
        let registered = |call: &PluginCall| matches!(call, PluginCall::Registered { answer: Ok(()), .. });
        self.wait().until(what, async || Ok(self.containers.calls_since(said).iter().any(registered))).await
    }

    /// Ends the stream of every plugin, as kubelet may.
    pub(crate) async fn lose_streams(&self) -> anyhow::Result<()> {
        self.kubelet.lock().await.as_ref().context("kubelet is stopped")?.drop_plugins();
        Ok(())
    }

    /// Gives containers other ids than the plugin prefers (`true`).
    pub(crate) async fn ignore_preferences(&self, ignore: bool) -> anyhow::Result<()> {
        self.kubelet.lock().await.as_ref().context("kubelet is stopped")?.ignore_preferences(ignore);
        Ok(())
    }

    /// Has kubelet's next socket have the inode of this one, until told otherwise.
    pub(crate) fn keep_inode(&self, keep: bool) {
        self.platform.keep_inode(keep);
    }

    /// Removes the sockets in kubelet's folder, as a kubelet that starts does first.
    pub(crate) fn remove_sockets(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::FileTypeExt as _;
        let folder = self.config.plugins_dir();
        let entries = std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("reading {}", folder.display()))?.path();
            if !std::fs::symlink_metadata(&path).is_ok_and(|file| file.file_type().is_socket()) {
                continue;
            }
            match std::fs::remove_file(&path) {
                // A plugin may remove its own meanwhile.
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    bail!("cannot remove {}: {error}", path.display());
                }
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Why kubelet has panicked, if it has.
    pub(crate) async fn panic_reason(&self) -> Option<String> {
        self.kubelet.lock().await.as_ref().and_then(|kubelet| kubelet.panic_reason())
    }
}

fn uid_of<'a>(container: &ContainerOf<'a>) -> &'a str {
    container.pod.metadata.uid.as_deref().unwrap_or_default()
}
