//! A stand-in for kube-controller-manager: Jobs, StatefulSets, node lifecycle and the collection of pods that nobody needs. What
//! it knows of the cluster it knows at once; what it writes goes over its own way to the API server.

mod garbage;
mod jobs;
mod node_lifecycle;
mod owners;
mod stateful_sets;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_cluster::Clock;
use fake_cluster::api::text;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams, Preconditions};
use serde_json::Value;
use simulator::Simulation;
use tokio::time::{Instant, interval};

use self::owners::Owners;
use crate::names::NAMESPACE;
use crate::watcher::Watcher;

/// Time between two looks at nodes and at pods that nobody needs.
const PERIOD: Duration = Duration::from_secs(5);
/// Shortest time between two looks at owners: changes come by the dozen.
const GATHER: Duration = Duration::from_millis(500);

/// All controllers.
pub(crate) struct Controllers {
    simulation: Simulation,
    watcher: Arc<Watcher>,
    clock: Clock,
    owners: Mutex<Owners>,
}

impl Controllers {
    pub(crate) fn new(simulation: &Simulation, watcher: Arc<Watcher>, clock: Clock) -> Self {
        Self { simulation: simulation.clone(), watcher, clock, owners: Mutex::default() }
    }

    /// Runs until the future is dropped.
    pub(crate) async fn run(self: Arc<Self>, client: kube::Client) {
        tokio::join!(self.keep_owners(&client), self.look_after_nodes(&client));
    }

    async fn keep_owners(&self, client: &kube::Client) {
        let mut looks = interval(PERIOD);
        loop {
            tokio::select! {
                biased;
                () = self.watcher.changed.notified() => tokio::time::sleep(GATHER).await,
                _ = looks.tick() => {}
            }
            if self.owners().is_empty() {
                continue;
            }
            self.keep_jobs(client).await;
            self.keep_stateful_sets(client).await;
        }
    }

    async fn look_after_nodes(&self, client: &kube::Client) {
        let mut looks = interval(PERIOD);
        let mut collected = Instant::now();
        loop {
            looks.tick().await;
            self.watch_nodes(client).await;
            if collected.elapsed() >= garbage::PERIOD {
                collected = Instant::now();
                self.collect(client).await;
            }
        }
    }

    /// Creates a pod of an owner. That it is there already, or cannot be made now, is found out at the next look.
    async fn create(&self, client: &kube::Client, owner: &str, name: &str, template: &Value) {
        let mut pod = template.clone();
        pod["metadata"]["name"] = name.into();
        pod["metadata"]["labels"][owners::LABEL] = owner.into();
        let Ok(pod) = serde_json::from_value::<Pod>(pod) else { return };
        let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
        if let Err(error) = api.create(&PostParams::default(), &pod).await {
            self.simulation.event("controllers", format_args!("pod {name} not created: {error}"));
        }
    }

    /// Deletes a pod, unless it is another one by now. `grace` in seconds; none: the pod's own.
    async fn delete(&self, client: &kube::Client, pod: &Value, grace: Option<u32>) {
        let (namespace, name) = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let uid = Some(text(pod, "/metadata/uid").to_owned());
        let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
        let preconditions = Some(Preconditions { uid, resource_version: None });
        let parameters =
            DeleteParams { grace_period_seconds: grace, preconditions, ..DeleteParams::default() };
        if let Err(error) = api.delete(name, &parameters).await {
            self.simulation.event("controllers", format_args!("pod {name} not deleted: {error}"));
        }
    }

    fn owners(&self) -> MutexGuard<'_, Owners> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
