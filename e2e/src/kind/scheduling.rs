//! Both ways of scheduling: `my-scheduler` as a second kube-scheduler, and the extender registered with the default
//! scheduler's static pod. Also the extender's own stop and start, and the way through the harness proxy.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::Context as _;
use clap::ValueEnum;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::KindCluster;
use super::install::{DNS, EXTENDER as EXTENDER_MANIFEST, MY_SCHEDULER, SYSTEM, of_release};
use super::kubeadm::{SCHEDULER_FILE, SCHEDULER_FOLDER};
use super::nodes::is_ready;
use super::wait::until;
use neuron_e2e_engine::scheduler_configuration::{CONFIG_KEY, ExtenderEntry, SchedulerConfiguration};

/// Who places the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Scheduling {
    /// A second kube-scheduler; it sends node names, over HTTPS with a client certificate.
    MyScheduler,
    /// The default scheduler's static pod; it sends whole nodes, over HTTP.
    Default,
}

impl Scheduling {
    /// The name that pods give.
    pub fn scheduler_name(self) -> &'static str {
        match self {
            Scheduling::MyScheduler => "my-scheduler",
            Scheduling::Default => "default-scheduler",
        }
    }
}

/// How the scheduler reaches the extender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Through its Service, as deployed.
    Service,
    /// Through the harness proxy, which can hold calls.
    Proxy,
}

const EXTENDER: &str = "k8s-neuron-scheduler";
const MY: &str = "my-scheduler";
const CONFIG_MAP: &str = "my-scheduler-config";
const MANIFEST: &str = "/etc/kubernetes/manifests/kube-scheduler.yaml";
const MANIFEST_AWAY: &str = "/etc/kubernetes/kube-scheduler.yaml.stopped";
/// Prints the command line of every kube-scheduler on a node: my-scheduler may run beside the default one.
const SCHEDULERS: &str =
    "for id in $(pgrep -x kube-scheduler); do tr '\\0' ' ' < /proc/$id/cmdline; echo; done 2>/dev/null || :";

impl KindCluster {
    /// Configures extender and schedulers, where they are not so already, and waits until they serve. my-scheduler
    /// talks HTTPS; the default scheduler, and whoever goes through the proxy, HTTP.
    pub(super) async fn schedule_by(&self, scheduling: Scheduling, route: Route) -> anyhow::Result<()> {
        let mut now = self.route.lock().await;
        if *now == Some((scheduling, route)) {
            return Ok(());
        }
        *now = None;
        let mut forward = self.forward.lock().await;
        *forward = None;
        self.proxy.set_target(None);
        // Replaced, not applied: what a patch has added goes.
        let manifests = [EXTENDER_MANIFEST, MY_SCHEDULER].join("\n---\n");
        let manifests = of_release(&manifests, &self.release().await?);
        // A conflict where a controller has written a status just now.
        until("the scheduler's manifests to be replaced", || async {
            self.kubectl(&["replace", "-f", "-"], &manifests).await.map(|_| true)
        })
        .await?;
        let proxy = format!("http://{}", self.proxy.address());
        if route == Route::Proxy {
            let mut config = SchedulerConfiguration::deployed()?;
            config.extenders = vec![ExtenderEntry::deployed_at(&proxy)?];
            let configs: Api<ConfigMap> = Api::namespaced(self.client.clone(), SYSTEM);
            let patch = json!({"data": {CONFIG_KEY: config.to_yaml()?}});
            configs.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        } else if scheduling == Scheduling::MyScheduler {
            self.use_https().await?;
        }
        let extenders = match scheduling {
            // It would ask the extender too.
            Scheduling::MyScheduler => Vec::new(),
            Scheduling::Default => {
                let url = if route == Route::Proxy { proxy } else { self.service_url().await? };
                vec![ExtenderEntry::deployed_at(&url)?.with_whole_nodes()]
            }
        };
        let default = SchedulerConfiguration::of_default(extenders).to_yaml()?;
        let my_scheduler = async {
            if scheduling == Scheduling::Default {
                // Nobody's pods name it.
                return Ok(());
            }
            // It reads its configuration when it starts, and finds the extender by its name.
            self.scale(MY, 0).await?;
            self.scale(MY, 1).await?;
            self.rolled_out(DNS).await
        };
        let extender = self.rolled_out("deployment/k8s-neuron-scheduler");
        tokio::try_join!(self.configure_default(&default), my_scheduler, extender)?;
        self.extender_is_reached().await?;
        if route == Route::Proxy {
            let started = Forward::start(self).await?;
            self.proxy.set_target(Some(started.address));
            *forward = Some(started);
        }
        *now = Some((scheduling, route));
        Ok(())
    }

    /// The extender's Service by its address: a static pod uses its host's resolver, which knows no Services.
    async fn service_url(&self) -> anyhow::Result<String> {
        Ok(format!("http://{}:12345", self.service_address().await?))
    }

    async fn service_address(&self) -> anyhow::Result<String> {
        let services: Api<Service> = Api::namespaced(self.client.clone(), SYSTEM);
        let service = services.get(EXTENDER).await?.spec.and_then(|spec| spec.cluster_ip);
        service.context("the extender's Service has no address")
    }

    /// Waits until every node's way to the extender's Service leads to a pod that listens: kube-proxy hears of a new
    /// pod a moment after it is ready.
    async fn extender_is_reached(&self) -> anyhow::Result<()> {
        let call = format!("timeout 2 bash -c '</dev/tcp/{}/12345'", self.service_address().await?);
        for node in &self.nodes {
            until(&format!("{node} to reach the extender"), || async {
                self.in_node(node, &call).await.map(|_| true)
            })
            .await?;
        }
        Ok(())
    }

    /// Gives the default scheduler this configuration and restarts it, unless it has it already.
    async fn configure_default(&self, text: &str) -> anyhow::Result<()> {
        let path = self.scheduler_folder.join(SCHEDULER_FILE);
        if tokio::fs::read_to_string(&path).await.is_ok_and(|before| before == text) {
            return Ok(());
        }
        tokio::fs::write(&path, text).await.with_context(|| format!("writing {}", path.display()))?;
        self.stop_scheduler(Scheduling::Default).await?;
        self.start_scheduler(Scheduling::Default).await
    }

    /// Stops the scheduler and waits until it no longer runs.
    pub(super) async fn stop_scheduler(&self, scheduling: Scheduling) -> anyhow::Result<()> {
        match scheduling {
            Scheduling::MyScheduler => self.scale(MY, 0).await,
            Scheduling::Default => {
                let node = &self.control_plane;
                self.in_node(node, &format!("mv {MANIFEST} {MANIFEST_AWAY}")).await?;
                until("the default scheduler to end", || async {
                    let running = self.in_node(node, SCHEDULERS).await?;
                    let still = running.contains(SCHEDULER_FOLDER);
                    Ok(self.default_scheduler_pod().await?.is_none() && !still)
                })
                .await
            }
        }
    }

    /// Starts the scheduler and waits until it runs.
    pub(super) async fn start_scheduler(&self, scheduling: Scheduling) -> anyhow::Result<()> {
        match scheduling {
            Scheduling::MyScheduler => self.scale(MY, 1).await,
            Scheduling::Default => {
                self.in_node(&self.control_plane, &format!("mv {MANIFEST_AWAY} {MANIFEST}")).await?;
                until("the default scheduler to run", || async {
                    Ok(self.default_scheduler_pod().await?.as_ref().is_some_and(is_ready))
                })
                .await
            }
        }
    }

    async fn default_scheduler_pod(&self) -> anyhow::Result<Option<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        Ok(pods.get_opt(&format!("kube-scheduler-{}", &self.control_plane)).await?)
    }

    /// Stops the extender and waits until it no longer runs.
    pub(super) async fn stop_extender(&self) -> anyhow::Result<()> {
        self.proxy.set_target(None);
        *self.forward.lock().await = None;
        self.scale(EXTENDER, 0).await
    }

    /// Starts the extender and waits until it serves.
    pub(super) async fn start_extender(&self) -> anyhow::Result<()> {
        self.scale(EXTENDER, 1).await?;
        self.extender_is_reached().await?;
        if matches!(*self.route.lock().await, Some((_, Route::Proxy))) {
            let forward = Forward::start(self).await?;
            self.proxy.set_target(Some(forward.address));
            *self.forward.lock().await = Some(forward);
        }
        Ok(())
    }

    /// Gives a Deployment this many replicas and waits until there are so many, ready, and none that is leaving.
    async fn scale(&self, name: &str, replicas: i32) -> anyhow::Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), SYSTEM);
        let patch = json!({"spec": {"replicas": replicas}});
        let deployment = deployments
            .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
            .with_context(|| format!("scaling {name} to {replicas}"))?;
        let labels = deployment.spec.and_then(|spec| spec.selector.match_labels).unwrap_or_default();
        let selector: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SYSTEM);
        let filter = ListParams::default().labels(&selector.join(","));
        until(&format!("{name} to have {replicas} pods"), || async {
            let pods = pods.list(&filter).await?.items;
            Ok(pods.len() == replicas.unsigned_abs() as usize && pods.iter().all(is_ready))
        })
        .await
    }
}

/// A way from this host to the extender's pod: `kubectl port-forward`. It ends when dropped, or with the pod.
pub(super) struct Forward {
    address: SocketAddr,
    _program: Child,
}

impl Forward {
    async fn start(cluster: &KindCluster) -> anyhow::Result<Self> {
        let service = format!("service/{EXTENDER}");
        let mut program = Command::new("kubectl")
            .args(cluster.access.arguments())
            .args(["-n", SYSTEM, "port-forward", &service, ":12345"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start `kubectl port-forward`")?;
        let output = program.stdout.take().context("`kubectl port-forward` has no output")?;
        let mut lines = BufReader::new(output).lines();
        // It says: Forwarding from 127.0.0.1:40001 -> 12345
        let line = lines.next_line().await?.context("`kubectl port-forward` ended at once")?;
        let address = line.split_whitespace().nth(2).and_then(|text| text.parse().ok());
        let address = address.with_context(|| format!("`kubectl port-forward` said {line:?}"))?;
        // It says a line for each connection, and stops where nobody reads them.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { address, _program: program })
    }
}
