//! Who places pods: `my-scheduler`, a second kube-scheduler, or the default scheduler's static pod, at which the extender
//! is then registered.

use clap::ValueEnum;
use k8s_openapi::api::core::v1::ConfigMap;
use kind_driver::{ControlPlanePart, WAIT};
use kube::api::{Api, Patch, PatchParams};
use neuron_e2e_engine::scheduler_configuration::{CONFIG_KEY, ExtenderEntry, SchedulerConfiguration};
use serde_json::json;

use super::KindCluster;
use super::install::{DNS, EXTENDER as EXTENDER_MANIFEST, MY_SCHEDULER, SYSTEM, of_release};
use super::leases::{Leases, with_short_leases};

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
pub(crate) enum Route {
    /// Through its Service, as deployed.
    Service,
    /// Through the harness proxy, which can hold calls.
    Proxy,
}

/// How the schedulers and the extender are configured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    pub(crate) scheduling: Scheduling,
    pub(crate) route: Route,
    pub(crate) leases: Leases,
}

impl Setup {
    /// As deployed.
    pub(crate) fn deployed(scheduling: Scheduling) -> Self {
        Self { scheduling, route: Route::Service, leases: Leases::Deployed }
    }

    /// Whether the extender is called over HTTPS.
    pub(super) fn is_https(self) -> bool {
        self.scheduling == Scheduling::MyScheduler && self.route == Route::Service
    }
}

const MY: &str = "my-scheduler";
/// Selector of its pods.
pub(super) const MY_PODS: &str = "component=my-scheduler";
const CONFIG_MAP: &str = "my-scheduler-config";

impl KindCluster {
    /// Configures extender and schedulers, where they are not so already, and waits until they serve. my-scheduler
    /// talks HTTPS; the default scheduler, and whoever goes through the proxy, HTTP.
    pub(crate) async fn schedule_by(&self, setup: Setup) -> anyhow::Result<()> {
        let mut now = self.setup.lock().await;
        if *now == Some(setup) {
            return Ok(());
        }
        let Setup { scheduling, route, leases } = setup;
        *now = None;
        let mut forward = self.forward.lock().await;
        self.close_proxy(&mut forward);
        self.deploy_anew(leases).await?;
        let proxy = format!("http://{}", self.proxy.address());
        if route == Route::Proxy {
            self.configure_my_scheduler(&proxy).await?;
        } else if setup.is_https() {
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
        let default = SchedulerConfiguration::of_default(extenders);
        let default = if leases == Leases::Short { default.with_short_lease() } else { default }.to_yaml()?;
        let my_scheduler = async {
            if scheduling == Scheduling::Default {
                // Nobody's pods name it.
                return Ok(());
            }
            // It reads its configuration when it starts, and finds the extender by its name.
            self.stop_scheduler(scheduling).await?;
            self.start_scheduler(scheduling).await?;
            self.driver.rolled_out(SYSTEM, DNS).await
        };
        let extender = self.driver.rolled_out(SYSTEM, "deployment/k8s-neuron-scheduler");
        tokio::try_join!(self.driver.configure_scheduler(&default), my_scheduler, extender)?;
        self.extender_is_reached().await?;
        if route == Route::Proxy {
            self.open_proxy(&mut forward).await?;
        }
        *now = Some(setup);
        Ok(())
    }

    /// Gives extender and my-scheduler the form they are deployed in. Replaced, not applied: what a patch has added goes.
    async fn deploy_anew(&self, leases: Leases) -> anyhow::Result<()> {
        let manifests = [EXTENDER_MANIFEST, MY_SCHEDULER].join("\n---\n");
        let mut manifests = of_release(&manifests, &self.driver.release().await?);
        if leases == Leases::Short {
            manifests = with_short_leases(&manifests);
        }
        // A conflict where a controller has written a status just now.
        WAIT.until("the scheduler's manifests to be replaced", async || {
            self.driver.kubectl(&["replace", "-f", "-"], &manifests).await.map(|_| true)
        })
        .await
    }

    /// Has my-scheduler call the extender at this URL, once it is started again.
    async fn configure_my_scheduler(&self, url: &str) -> anyhow::Result<()> {
        let mut configuration = SchedulerConfiguration::deployed()?;
        configuration.extenders = vec![ExtenderEntry::deployed_at(url)?];
        let configs: Api<ConfigMap> = Api::namespaced(self.client(), SYSTEM);
        let patch = json!({"data": {CONFIG_KEY: configuration.to_yaml()?}});
        configs.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Stops the scheduler and waits until it no longer runs.
    pub(crate) async fn stop_scheduler(&self, scheduling: Scheduling) -> anyhow::Result<()> {
        match scheduling {
            Scheduling::MyScheduler => self.driver.scale(SYSTEM, MY, 0).await,
            Scheduling::Default => self.driver.stop_part(ControlPlanePart::Scheduler).await,
        }
    }

    /// Kills the scheduler and waits for nothing; the default one, which kubelet would start ever later, is started again.
    pub(crate) async fn kill_scheduler(&self, scheduling: Scheduling) -> anyhow::Result<()> {
        match scheduling {
            Scheduling::MyScheduler => self.driver.kill_pods(SYSTEM, MY_PODS, None).await,
            Scheduling::Default => {
                self.driver.stop_part(ControlPlanePart::Scheduler).await?;
                self.driver.start_part(ControlPlanePart::Scheduler).await
            }
        }
    }

    /// Starts the scheduler and waits until it runs.
    pub(crate) async fn start_scheduler(&self, scheduling: Scheduling) -> anyhow::Result<()> {
        match scheduling {
            Scheduling::MyScheduler => self.driver.scale(SYSTEM, MY, 1).await,
            Scheduling::Default => self.driver.start_part(ControlPlanePart::Scheduler).await,
        }
    }
}
