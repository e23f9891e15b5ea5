//! The pods: made while no scheduler serves them, watched as they are bound, looked at once they are, and removed.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kind_driver::WAIT;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::runtime::watcher::Event;
use kube::{Api, Client};
use neuron_core::ids::DeviceSet;
use neuron_core::names::NEURON;
use neuron_core::record::{Allocation, Recorded};
use prost::Message;
use runtime::protobuf::Object;
use runtime::{Collection, Disconnected, Protobuf, System};
use serde_json::json;
use tokio::time::{Instant, timeout_at};

use super::machine::ProcessorTime;
use super::pace::Pace;

/// The scheduler that the pods name.
pub(super) const SCHEDULER: &str = "neuron-bench";
const NAMESPACE: &str = "default";
/// What the pods' names begin with.
const PREFIX: &str = "bench-";
const LABEL: &str = "neuron-bench=waiting";
/// Requests to the API server at the same time.
const AT_ONCE: usize = 16;
/// Longest wait for all pods to be bound.
const LONGEST: Duration = Duration::from_secs(270);

/// What is read of a pod that is bound; its fields' numbers never change.
#[derive(Clone, PartialEq, Message)]
struct BoundPod {
    #[prost(message, required, tag = "1")]
    metadata: Metadata,
}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
}

impl Object for BoundPod {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// The pods of one measurement after the other.
#[derive(Clone)]
pub(super) struct Pods {
    api: Api<Pod>,
    accounts: Api<ServiceAccount>,
    count: usize,
}

impl Pods {
    /// So many pods.
    pub(super) fn new(client: &Client, count: usize) -> Self {
        let api = Api::namespaced(client.clone(), NAMESPACE);
        Self { api, accounts: Api::namespaced(client.clone(), NAMESPACE), count }
    }

    /// Makes them; each asks for one device.
    pub(super) async fn create(&self) -> anyhow::Result<()> {
        // Before the account is there pods are refused.
        WAIT.until("the account of pods", async || Ok(self.accounts.get_opt("default").await?.is_some()))
            .await?;
        let one = json!({
            "metadata": {"generateName": PREFIX, "labels": {"neuron-bench": "waiting"}},
            "spec": {
                "schedulerName": SCHEDULER,
                "automountServiceAccountToken": false,
                "terminationGracePeriodSeconds": 0,
                "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "none", "resources": {"limits": {NEURON: "1"}}}],
            },
        });
        let pod: Pod = serde_json::from_value(one)?;
        futures::stream::iter(0..self.count)
            .map(|_| async { self.api.create(&PostParams::default(), &pod).await.map(|_| ()) })
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await
            .context("making the pods")
    }

    /// Lists them, and watches them being bound from there on; the watch is opened when its first event is waited for.
    pub(super) async fn watch(&self) -> anyhow::Result<BindWatch> {
        let bound = Collection::of::<Pod>().only("spec.nodeName!=");
        let mut events = runtime::watch(&System::real(), self.api.clone().into_client(), bound, Protobuf);
        let listed = async {
            while !matches!(events.next().await.context("a watch never ends")??, Event::InitDone) {}
            anyhow::Ok(())
        };
        timeout_at(Instant::now() + LONGEST, listed).await.context("listing the pods")??;
        Ok(BindWatch { events, bound: HashSet::new(), wanted: self.count, first: None })
    }

    /// Whether every pod has a record that names devices of its own; an error says which has not.
    pub(super) async fn check_records(&self) -> anyhow::Result<()> {
        let mut taken: BTreeMap<String, DeviceSet> = BTreeMap::new();
        for pod in self.api.list(&ListParams::default().labels(LABEL)).await?.items {
            let name = pod.metadata.name.unwrap_or_default();
            let node = pod.spec.and_then(|spec| spec.node_name).unwrap_or_default();
            let annotations = pod.metadata.annotations.unwrap_or_default();
            let Ok(Some(Recorded::Ours(allocation))) = Allocation::parse(&annotations) else {
                bail!("pod {name} on node {node} has no record");
            };
            let devices = allocation.union_devices();
            let before = taken.entry(node.clone()).or_default();
            if devices.len() != 1 || before.intersects(devices) {
                bail!("pod {name} on node {node} has {devices}, others there have {before}");
            }
            *before = before.union(devices);
        }
        Ok(())
    }

    /// Removes them and waits until they are gone.
    pub(super) async fn remove(&self) -> anyhow::Result<()> {
        let at_once = DeleteParams::default().grace_period(0);
        let ours = ListParams::default().labels(LABEL);
        WAIT.until("the pods to be gone", async || {
            self.api.delete_collection(&at_once, &ours).await?;
            Ok(self.api.list_metadata(&ours).await?.items.is_empty())
        })
        .await
    }
}

/// A watch of pods being bound, of whole pods in protobuf: kube-scheduler watches the same, so the API server encodes each event once for both.
/// Metadata alone it would encode for this watch only, at a cost that grows with the record.
pub(super) struct BindWatch {
    events: BoxStream<'static, Result<Event<BoundPod>, Disconnected>>,
    bound: HashSet<String>,
    wanted: usize,
    /// What began with the first event.
    first: Option<Begun>,
}

/// What is looked at while pods are bound.
struct Begun {
    at: Instant,
    processors: Option<ProcessorTime>,
    pace: Pace,
}

/// What it took to bind the pods, from the first one to the last one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    /// Wall time from the first bind to the last.
    pub(super) time: Duration,
    /// Share of the processors' time that other machines had meanwhile; none where the system does not say.
    pub(super) stolen: Option<f64>,
    /// Processor time of the same small piece of work, done over and over meanwhile.
    pub(super) pace: Option<Duration>,
}

impl BindWatch {
    /// Waits until all are bound.
    ///
    /// # Errors
    /// Some minutes went by; with how many were bound.
    pub(super) async fn all_bound(mut self) -> anyhow::Result<Took> {
        let deadline = Instant::now() + LONGEST;
        while self.bound.len() < self.wanted {
            let counted = format!("{} of {} pods were bound", self.bound.len(), self.wanted);
            let next = timeout_at(deadline, self.events.next()).await.context(counted)?;
            // A watch that breaks off is taken up after a pause, which must not count.
            let Event::Apply(pod) = next.context("a watch never ends")?? else { continue };
            if !pod.metadata.name.starts_with(PREFIX) {
                continue;
            }
            self.bound.insert(pod.metadata.uid);
            self.first.get_or_insert_with(Begun::now);
        }
        let Begun { at, processors, pace } = self.first.context("there are no pods to bind")?;
        let time = at.elapsed();
        let stolen = ProcessorTime::now().zip(processors).map(|(now, before)| now.stolen_since(before));
        Ok(Took { time, stolen, pace: pace.end().await })
    }
}

impl Begun {
    fn now() -> Self {
        Self { at: Instant::now(), processors: ProcessorTime::now(), pace: Pace::begin() }
    }
}
