//! The pods of two replicas of the extender, as the Deployment makes them, and the Service that leads to the one of them with the
//! leader's label. Used by [`super::extender`]: nothing runs in these pods, the programs run beside them.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use fake_cluster::api::ApiServer;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client};
use neuron_core::names::LEADER_LABEL;
use neuron_extender::LeaderElection;
use serde_json::json;

use crate::extender_proxy::Proxy;

/// As in `deploy/k8s-neuron-scheduler-eks.yml`: namespace, name of Deployment and Lease, the Lease's duration.
const SYSTEM: &str = "kube-system";
const NAME: &str = "k8s-neuron-scheduler";
const LEASE_DURATION: Duration = Duration::from_secs(15);

/// The pods, each with the address of the program that belongs to it.
pub(super) struct ExtenderPods {
    api: Api<Pod>,
    addresses: Arc<Mutex<BTreeMap<String, SocketAddr>>>,
    /// How many there have been.
    created: Cell<u32>,
}

impl ExtenderPods {
    /// None yet. From now on the proxy leads to the one that has the leader's label, and nowhere while none has it.
    pub(super) fn followed_by(proxy: &Arc<Proxy>, server: &ApiServer, client: &Client) -> Self {
        let addresses = Arc::<Mutex<BTreeMap<String, SocketAddr>>>::default();
        let (proxy, known) = (Arc::clone(proxy), Arc::clone(&addresses));
        server.observe(Box::new(move |write| {
            if write.kind != "Pod" || write.namespace != SYSTEM {
                return;
            }
            let Some(address) = locked(&known).get(write.name).copied() else { return };
            let leads = write.after.is_some_and(|pod| pod["metadata"]["labels"][LEADER_LABEL] == "true");
            match (leads, proxy.target() == Some(address)) {
                (true, false) => proxy.set_target(Some(address)),
                (false, true) => proxy.set_target(None),
                _ => {}
            }
        }));
        Self { api: Api::namespaced(client.clone(), SYSTEM), addresses, created: Cell::new(0) }
    }

    /// Creates a pod for the program at this address; its name, which no other one has had.
    pub(super) async fn create(&self, address: SocketAddr) -> anyhow::Result<String> {
        self.created.set(self.created.get() + 1);
        let name = format!("{NAME}-replica-{}", self.created.get());
        locked(&self.addresses).insert(name.clone(), address);
        let pod = json!({
            "metadata": {"name": name, "labels": {"app": "neuron-scheduler", "component": NAME}},
            "spec": {"containers": [{"name": "neuron-scheduler-exp", "image": "neuron-extender:dev"}]},
        });
        let created = self.api.create(&PostParams::default(), &serde_json::from_value(pod)?).await;
        created.with_context(|| format!("creating pod {name} of the extender"))?;
        Ok(name)
    }

    /// Removes the pod, and with it the leader's label that it may have.
    pub(super) async fn remove(&self, name: &str) -> anyhow::Result<()> {
        let removed = self.api.delete(name, &DeleteParams::default()).await;
        removed.with_context(|| format!("removing pod {name} of the extender"))?;
        locked(&self.addresses).remove(name);
        Ok(())
    }

    /// How the program in this pod stands for election.
    pub(super) fn election(&self, pod: &str) -> LeaderElection {
        LeaderElection {
            namespace: SYSTEM.to_owned(),
            lease: NAME.to_owned(),
            lease_duration: LEASE_DURATION,
            pod: pod.to_owned(),
            labels_pod: true,
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
