//! The embedded node itself: its folder, API server, scheduler, kubelet and plugin. What cases ask of it is in `stage`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use fake_cluster::kubelet::{FreeChoices, KubeletConfig, PluginCall};
use fake_cluster::scheduler::SchedulerConfig;
use fake_cluster::system::Address;
use fake_cluster::{ApiServer, Kubelet, Scheduler, System};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::containers::Containers;
use super::process::Process;
use super::registration_socket::KubeletPlatform;
use super::setup::{EmbeddedPlugin, Values, check_namespaces};
use crate::daemon_set_plugin::preparation;
use crate::plugin::{Description, Devices, Injection, Preparation};

/// The node's name.
const NODE: &str = "embedded";
/// How long kubelet may take to start; its pods are admitted meanwhile, and a plugin's Allocate has no time-out.
const KUBELET: Duration = Duration::from_secs(60);
/// What no status of kubelet's has taken longer than; times in them are whole seconds.
const TICK: Duration = Duration::from_secs(2);
/// Lines of the plugin that are shown where something failed.
const LINES: usize = 12;

/// A node with a plugin, in a folder that goes with it.
pub struct EmbeddedNode {
    pub(super) plugin: EmbeddedPlugin,
    pub(super) description: Description,
    pub(super) values: Values,
    pub(super) server: ApiServer,
    pub(super) config: KubeletConfig,
    pub(super) platform: Arc<KubeletPlatform>,
    pub(super) containers: Arc<Containers>,
    pub(super) kubelet: Mutex<Option<Kubelet>>,
    /// The plugin under test, and a second one.
    pub(super) plugins: Mutex<[Option<Process>; 2]>,
    /// Ids of devices that were made unhealthy, by their place.
    pub(super) unhealthy: Mutex<BTreeMap<u64, String>>,
    /// How many devices the plugin is asked for.
    count: AtomicU64,
    started: AtomicU64,
    log: PathBuf,
    _scheduler: Scheduler,
    _serving: DropGuard,
    _folder: TempDir,
}

impl EmbeddedNode {
    /// Makes the node, starts kubelet and the plugin, and waits until it advertises its devices.
    ///
    /// # Errors
    /// The plugin does not, or the machine lacks what the node needs.
    pub async fn up(plugin: EmbeddedPlugin) -> anyhow::Result<Self> {
        ensure!(plugin.count > 0, "a plugin without devices is not tested: give how many it advertises");
        ensure!(
            plugin.healthy_command.is_some() == plugin.unhealthy_command.is_some(),
            "of the commands that make a device unhealthy and healthy again one is missing"
        );
        if plugin.in_namespace {
            check_namespaces().await?;
        }
        let folder = testkit_support::short_folder().context("cannot make a temporary folder")?;
        let config = KubeletConfig {
            free_choices: FreeChoices::Seeded(1),
            ..KubeletConfig::new(NODE, folder.path().join("kubelet"))
        };
        for own in [folder.path().join("sockets"), folder.path().join("plugin"), config.plugins_dir()] {
            std::fs::create_dir_all(&own).with_context(|| format!("cannot make {}", own.display()))?;
        }
        let platform = KubeletPlatform::new(config.registration_socket(), folder.path().join("sockets"));
        let (server, serving) = (ApiServer::default(), CancellationToken::new());
        let system = System::real();
        let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into()));
        let listener = listener.context("cannot listen on 127.0.0.1")?;
        let values = Values {
            kubelet_dir: config.dir.clone(),
            plugins_dir: config.plugins_dir(),
            folder: folder.path().join("plugin"),
            kubeconfig: folder.path().join("kubeconfig"),
            node: NODE.to_owned(),
            resource: plugin.resource.clone(),
        };
        std::fs::write(&values.kubeconfig, kubeconfig(&listener.address()))
            .with_context(|| format!("cannot write {}", values.kubeconfig.display()))?;
        system.spawn(server.clone().serve(&system, listener, serving.clone()));
        let scheduler = SchedulerConfig::new("default-scheduler");
        let scheduler = Scheduler::start(&system, server.client(), &server, scheduler);
        let node = Self {
            description: description(&plugin),
            containers: Arc::new(Containers::new(&plugin.resource)),
            platform: Arc::new(platform),
            kubelet: Mutex::default(),
            plugins: Mutex::default(),
            unhealthy: Mutex::default(),
            count: AtomicU64::new(plugin.count),
            started: AtomicU64::new(0),
            log: folder.path().join("plugin.log"),
            _scheduler: scheduler,
            _serving: serving.drop_guard(),
            _folder: folder,
            plugin,
            values,
            server,
            config,
        };
        node.ensure_kubelet().await?;
        if let Err(error) = node.first_list().await {
            return Err(node.with_log(error));
        }
        Ok(node)
    }

    /// Starts the plugin and waits until its list has the number of devices that was said.
    async fn first_list(&self) -> anyhow::Result<()> {
        let EmbeddedPlugin { resource, count, wait, .. } = &self.plugin;
        self.ensure_plugin().await;
        let wanted = usize::try_from(*count)?;
        let listed = wait.until("its list", async || Ok(self.containers.last_ids().len() == wanted)).await;
        if listed.is_ok() {
            return Ok(());
        }
        let refused = self.containers.calls_since(0).into_iter().rev().find_map(|call| match call {
            PluginCall::Registered { answer: Err(why), .. } => Some(why),
            _ => None,
        });
        match (self.containers.last_ids().len(), refused) {
            (0, Some(why)) => bail!("kubelet refused the plugin's registration of {resource}: {why}"),
            (0, None) => bail!(
                "the plugin advertised no device of {resource} within {} s (--resource, --plugin-command)",
                wait.timeout.as_secs()
            ),
            (listed, _) => {
                bail!("the plugin advertises {listed} devices of {resource}, not {count} (--count)")
            }
        }
    }

    /// Starts kubelet, if it does not run.
    pub(super) async fn ensure_kubelet(&self) -> anyhow::Result<()> {
        let mut kubelet = self.kubelet.lock().await;
        if kubelet.as_ref().is_some_and(|kubelet| kubelet.panic_reason().is_none()) {
            return Ok(());
        }
        if let Some(panicked) = kubelet.take() {
            panicked.stop().await;
            self.platform.stopped();
        }
        let system = System::on(self.platform.clone());
        let (client, config) = (self.server.client(), self.config.clone());
        let starting = Kubelet::start(&system, client, &self.server, config, self.containers.clone());
        let started = tokio::time::timeout(KUBELET, starting).await;
        let started = started.with_context(|| {
            format!("kubelet did not start in {} s: a plugin does not answer Allocate", KUBELET.as_secs())
        })?;
        *kubelet = Some(started.context("starting kubelet")?);
        Ok(())
    }

    /// Stops kubelet, which leaves its sockets, as in a crash.
    pub(super) async fn end_kubelet(&self) -> anyhow::Result<()> {
        let kubelet = self.kubelet.lock().await.take().context("kubelet is stopped already")?;
        kubelet.stop().await;
        self.platform.stopped();
        Ok(())
    }

    /// Starts the plugin, if it does not run.
    pub(super) async fn ensure_plugin(&self) {
        let mut plugins = self.plugins.lock().await;
        if plugins[0].is_none() {
            plugins[0] = Some(self.new_process());
        }
    }

    /// One more of the plugin.
    pub(super) fn new_process(&self) -> Process {
        let (values, plugin) = (self.values.clone(), self.plugin.clone());
        let count = self.count.load(Ordering::SeqCst);
        let program = Box::new(move || values.program(&plugin, count));
        let number = self.started.fetch_add(1, Ordering::SeqCst);
        Process::start(number, program, self.log.clone())
    }

    /// Ends a plugin, if it runs.
    pub(super) async fn end_plugin(&self, which: usize) {
        let process = self.plugins.lock().await.get_mut(which).and_then(Option::take);
        if let Some(process) = process {
            process.stop().await;
        }
    }

    /// Lets the plugin have as many devices as a case needs, as far as it takes the number from the kit.
    pub(super) async fn with_devices(&self, devices: Devices) -> Preparation {
        let wanted = match devices {
            Devices::One if self.plugin.takes_count() => 1,
            Devices::One | Devices::AtLeast(_) => self.plugin.count,
        };
        let prepared = preparation(wanted, devices);
        if matches!(prepared, Preparation::Ready(_)) && self.count.swap(wanted, Ordering::SeqCst) != wanted {
            self.end_plugin(0).await;
        }
        prepared
    }

    /// Makes every device healthy again that a case left otherwise.
    pub(super) async fn heal(&self) -> anyhow::Result<()> {
        let Some(command) = &self.plugin.healthy_command else { return Ok(()) };
        let mut unhealthy = self.unhealthy.lock().await;
        while let Some((index, id)) = unhealthy.pop_first() {
            let count = self.count.load(Ordering::SeqCst);
            self.values.change_health(command, index, &id, count).await?;
        }
        Ok(())
    }

    /// Makes a device unhealthy or healthy, by its place among those that are listed.
    pub(super) async fn change_health(&self, index: u64, healthy: bool) -> anyhow::Result<()> {
        let EmbeddedPlugin { healthy_command, unhealthy_command, .. } = &self.plugin;
        let command = if healthy { healthy_command } else { unhealthy_command };
        let command = command.as_ref().context("nothing is known that changes a device's health")?;
        let mut unhealthy = self.unhealthy.lock().await;
        let ids = self.containers.last_ids();
        let id = match unhealthy.get(&index) {
            // Where it is in a list that lacks it is not known any more.
            Some(id) => id.clone(),
            None => ids.get(usize::try_from(index)?).context("there is no such device")?.clone(),
        };
        let count = self.count.load(Ordering::SeqCst);
        self.values.change_health(command, index, &id, count).await?;
        if healthy {
            unhealthy.remove(&index);
        } else {
            unhealthy.insert(index, id);
        }
        Ok(())
    }

    /// Lets so much time pass by the cluster's clock.
    pub(crate) fn pass(&self, time: Duration) {
        self.server.clock().advance(time);
    }

    /// Has statuses be of a later time than what came before.
    pub(super) fn tick(&self) {
        self.pass(TICK);
    }

    /// What kubelet and the plugin said to each other.
    pub(crate) fn said(&self) -> &Containers {
        &self.containers
    }

    /// The error with the plugin's last lines.
    pub(super) fn with_log(&self, error: anyhow::Error) -> anyhow::Error {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let log = String::from_utf8_lossy(&log);
        let lines: Vec<&str> = log.lines().collect();
        let last = lines.iter().skip(lines.len().saturating_sub(LINES));
        let last: String = last.map(|line| format!("\n  {line}")).collect();
        let last = if last.is_empty() { "\n  nothing" } else { last.as_str() };
        anyhow::anyhow!("{error:#}\nthe plugin's last lines:{last}")
    }
}

fn description(plugin: &EmbeddedPlugin) -> Description {
    Description {
        namespace: String::new(),
        pods: String::new(),
        resource: plugin.resource.clone(),
        with_each_device: plugin.with_each_device.clone(),
        scheduler: None,
        injection: Injection::DeviceNodes,
        sets_health: plugin.unhealthy_command.is_some(),
        takes_over_within: plugin.takes_over_within,
        reports_ids: true,
    }
}

/// The way to an API server that asks nobody who he is.
fn kubeconfig(address: &Address) -> String {
    let cluster = json!({"name": "embedded", "cluster": {"server": format!("http://{address}")}});
    let context = json!({"name": "embedded", "context": {"cluster": "embedded", "user": "embedded"}});
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "embedded",
        "clusters": [cluster], "contexts": [context], "users": [{"name": "embedded", "user": {}}],
    })
    .to_string()
}
