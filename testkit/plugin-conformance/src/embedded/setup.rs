//! How a plugin is run in the embedded cluster: its command, and what the kit fills in. Read by `node` and `process`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context as _, bail};
use testkit_support::Wait;
use tokio::process::Command;

use crate::plugin::WithEachDevice;

/// How long a command that changes a device's health may take.
const COMMAND: Duration = Duration::from_secs(30);
/// Where kubelet's folder is on most nodes.
const USUAL_FOLDER: &str = "/var/lib/kubelet";

/// A plugin as a command, and what it is to advertise.
#[derive(Clone, Debug)]
pub struct EmbeddedPlugin {
    /// What starts it, for `sh`: a program with its arguments, `env NAME=VALUE PROGRAM` where it needs variables. Filled in: `{plugins-dir}` kubelet's folder of plugin sockets, `{kubelet-dir}` the folder
    /// above, `{folder}` a folder of the plugin's own, `{kubeconfig}` a way to the API server, `{node}` the node's name, and
    /// `{count}` how many devices it is to have. With `{count}` it is also asked for one device, for the cases of one.
    pub command: String,
    /// The extended resource: one is one device.
    pub resource: String,
    /// How many devices it advertises.
    pub count: u64,
    /// What else it advertises with each device.
    pub with_each_device: Vec<WithEachDevice>,
    /// What makes a device unhealthy, for `sh`: `{device}` is its id, `{index}` its place among them, from 0. Both or none.
    pub unhealthy_command: Option<String>,
    /// What makes it healthy again.
    pub healthy_command: Option<String>,
    /// How long the node may be without devices while one of two plugins takes over; none where there must not be two.
    pub takes_over_within: Option<Duration>,
    /// Whether it runs in a user and mount namespace with kubelet's folder at `/var/lib/kubelet`.
    pub in_namespace: bool,
    /// How long and how often to look for what should come.
    pub wait: Wait,
    /// How long what must not change is looked at.
    pub steady: Duration,
}

impl EmbeddedPlugin {
    /// A plugin whose health nothing changes, and of which a node has one.
    pub fn new(command: impl Into<String>, resource: impl Into<String>, count: u64) -> Self {
        Self {
            command: command.into(),
            resource: resource.into(),
            count,
            with_each_device: Vec::new(),
            unhealthy_command: None,
            healthy_command: None,
            takes_over_within: None,
            in_namespace: false,
            wait: Wait { timeout: Duration::from_secs(30), poll: Duration::from_millis(20) },
            steady: Duration::from_secs(1),
        }
    }

    /// Whether it takes the number of its devices from the kit.
    pub(super) fn takes_count(&self) -> bool {
        self.command.contains("{count}")
    }
}

/// What the kit knows and a command may ask for.
#[derive(Clone, Debug)]
pub(super) struct Values {
    pub(super) kubelet_dir: PathBuf,
    pub(super) plugins_dir: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) kubeconfig: PathBuf,
    pub(super) node: String,
    pub(super) resource: String,
}

impl Values {
    /// The command with the values in their places.
    pub(super) fn fill(&self, command: &str, more: &[(&str, String)]) -> String {
        let path = |path: &Path| path.display().to_string();
        let own = [
            ("kubelet-dir", path(&self.kubelet_dir)),
            ("plugins-dir", path(&self.plugins_dir)),
            ("folder", path(&self.folder)),
            ("kubeconfig", path(&self.kubeconfig)),
            ("node", self.node.clone()),
            ("resource", self.resource.clone()),
        ];
        let all = own.iter().chain(more);
        all.fold(command.to_owned(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
    }

    /// The plugin's program, not started yet.
    pub(super) fn program(&self, plugin: &EmbeddedPlugin, count: u64) -> Command {
        let command = self.fill(&plugin.command, &[("count", count.to_string())]);
        let mut program = if plugin.in_namespace {
            let mut program = Command::new("unshare");
            program
                .args(["--user", "--map-root-user", "--mount", "sh", "-c"])
                .arg(self.in_namespace(&command));
            program
        } else {
            let mut program = Command::new("sh");
            program.arg("-c").arg(format!("exec {command}"));
            program
        };
        program.env("KUBECONFIG", &self.kubeconfig).env("NODE_NAME", &self.node);
        program.stdin(Stdio::null()).process_group(0).kill_on_drop(true);
        program
    }

    /// The script that puts kubelet's folder where a program looks that has it compiled in. Where the machine has no such
    /// folder, and nobody may make one, `/var/lib` is another folder that has it alone.
    fn in_namespace(&self, command: &str) -> String {
        let (ours, lib) = (self.kubelet_dir.display(), self.folder.join("var-lib"));
        let lib = lib.display();
        format!(
            "set -e; if [ -d {USUAL_FOLDER} ]; then mount --bind {ours} {USUAL_FOLDER}; else mkdir -p {lib}/kubelet; \
             mount --bind {ours} {lib}/kubelet; mount --rbind {lib} /var/lib; fi; exec {command}"
        )
    }

    /// Runs a command that changes a device's health.
    pub(super) async fn change_health(
        &self,
        command: &str,
        index: u64,
        device: &str,
        count: u64,
    ) -> anyhow::Result<()> {
        let more =
            [("device", device.to_owned()), ("index", index.to_string()), ("count", count.to_string())];
        let command = self.fill(command, &more);
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(&command).stdin(Stdio::null()).kill_on_drop(true);
        let output = tokio::time::timeout(COMMAND, shell.output()).await;
        let output = output.with_context(|| format!("`{command}` did not end in {} s", COMMAND.as_secs()))?;
        let output = output.with_context(|| format!("cannot run `{command}`"))?;
        if !output.status.success() {
            bail!("`{command}`: {}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }
}

/// Whether this machine lets a program into a user and mount namespace.
///
/// # Errors
/// It does not, and why.
pub(super) async fn check_namespaces() -> anyhow::Result<()> {
    let mut unshare = Command::new("unshare");
    unshare.args(["--user", "--map-root-user", "--mount", "true"]).stdin(Stdio::null()).kill_on_drop(true);
    let output = unshare.output().await.context("unshare, of util-linux, cannot be started: install it")?;
    if !output.status.success() {
        bail!(
            "this machine makes no user and mount namespace: {}; run the plugin with a folder of its own, or on --cluster kind",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_given_what_it_asks_for_and_keeps_other_braces() {
        let values = Values {
            kubelet_dir: "/k".into(),
            plugins_dir: "/k/device-plugins".into(),
            folder: "/f".into(),
            kubeconfig: "/f/kubeconfig".into(),
            node: "n1".to_owned(),
            resource: "example.com/pair".to_owned(),
        };
        let command =
            "plugin --dir {plugins-dir} --n {count} -r {resource} -k {kubeconfig} ${HOME} {kubelet-dir}";
        assert_eq!(
            values.fill(command, &[("count", "4".to_owned())]),
            "plugin --dir /k/device-plugins --n 4 -r example.com/pair -k /f/kubeconfig ${HOME} /k"
        );
    }
}
