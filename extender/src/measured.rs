//! For the benches alone (`benches/verbs`), which see nothing else of what is inside: filter and prioritize as the routes call them, for
//! nodes that are told instead of watched, and beside them what serde_json alone takes for the same bodies. No program calls it.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::Context as _;
use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::occupancy::Occupancy;
use neuron_core::pod::{Amounts, BoundPod, Container, PodSpec, Resources};
use neuron_core::quantity::Quantity;
use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_core::request::PodRequest;
use serde_json::value::RawValue;
use tokio::time::Instant;

use crate::config::Config;
use crate::index::{
    Advertised, Change, Cluster, Index, ObservedLease, ObservedNode, ObservedPod, TopologyCache,
};
use crate::metrics::Metrics;
use crate::verbs::{self, Filter, Prioritize};
use crate::wire::{FilterArgs, FilterResult, FittingNodes, NodeName, NodeScore, scores_to_json};

/// The name of the container that holds what is held.
const MAIN: &str = "main";

/// How long the Lease of each node's plugin lasts: longer than any bench.
const LEASE: Duration = Duration::from_secs(86_400);

/// Moves that a call searches for before others get a turn.
pub const MOVES_OF_TURN: u32 = verbs::MOVES_OF_TURN;

/// The scores that prioritize gives to nodes, each of which takes the pod; 0 to 10.
pub fn scores(request: &PodRequest, nodes: &[&Occupancy]) -> Vec<u8> {
    verbs::scores(request, nodes)
}

/// A node with a device plugin.
#[derive(Clone, Debug)]
pub struct MeasuredNode {
    /// Its name.
    pub name: String,
    /// Its instance type, one of the catalog's.
    pub instance_type: String,
    /// The logical cores that a pod's record holds there; none where no pod is.
    pub held: CoreSet,
}

/// The verbs of an extender whose watches have shown these nodes, in the configuration that is the default. Made and asked inside a
/// tokio runtime.
pub struct Measured {
    cluster: Arc<Cluster>,
    filter: Filter,
    prioritize: Prioritize,
    renewed: ObservedLease,
}

impl Measured {
    /// The extender, once everything is listed.
    pub fn of(nodes: &[MeasuredNode]) -> Self {
        let Config { policy, lease_grace, .. } = Config::default();
        let index = Index::new(TopologyCache::new(Arc::new(Catalog::embedded().clone()), policy));
        let cluster = Arc::new(Cluster::new(index.with_lease_grace(lease_grace)));
        let leases = nodes.iter().map(|node| lease(&node.name)).collect();
        cluster.write(|index| index.change_nodes(Change::Listed(nodes.iter().map(observed).collect())));
        cluster.write(|index| index.change_pods(Change::Listed(nodes.iter().filter_map(holder).collect())));
        cluster.write(|index| index.change_leases(Change::Listed(leases), Instant::now(), UNIX_EPOCH));
        cluster.lease_gap.heard();
        let renewed = lease(nodes.first().map_or("", |node| node.name.as_str()));
        let (filter, prioritize) = verbs_of(&cluster);
        Self { cluster, filter, prioritize, renewed }
    }

    /// Forgets whatever the verbs have been asked: the next calls are the first about their requests.
    pub fn forget(&mut self) {
        (self.filter, self.prioritize) = verbs_of(&self.cluster);
    }

    /// A plugin renews its Lease, as one of many does every moment: filter looks at Leases only while their watch is heard.
    pub fn renew(&self) {
        let renewed = self.renewed.clone();
        self.cluster.lease_gap.heard();
        self.cluster.write(|index| index.change_leases(Change::Applied(renewed), Instant::now(), UNIX_EPOCH));
    }

    /// What `/filter` answers to the body.
    ///
    /// # Errors
    /// The body is not what kube-scheduler sends.
    pub async fn filter(&self, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let args: FilterArgs<'_> = serde_json::from_slice(body)?;
        Ok(self.filter.filter(args).await.to_json(body)?)
    }

    /// What `/prioritize` answers to the body.
    ///
    /// # Errors
    /// The body is not what kube-scheduler sends.
    pub async fn prioritize(&self, body: &[u8]) -> anyhow::Result<Vec<u8>> {
        let args: FilterArgs<'_> = serde_json::from_slice(body)?;
        Ok(scores_to_json(&self.prioritize.prioritize(args).await?))
    }
}

/// What `/filter` would answer if every node passed and nobody looked at any: the body is read, the answer is written.
///
/// # Errors
/// The body is not what kube-scheduler sends.
pub fn filter_by_serde_alone(body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let FilterArgs { pod, nodes, node_names } = serde_json::from_slice(body)?;
    pod.context("a body has a pod")?;
    let nodes = nodes.map(|nodes| {
        let items: Vec<&RawValue> =
            nodes.items.unwrap_or_default().into_iter().map(|node| node.json).collect();
        FittingNodes { items, ..FittingNodes::default() }
    });
    Ok(serde_json::to_vec(&FilterResult { nodes, node_names, ..FilterResult::default() })?)
}

/// What `/prioritize` would answer if nobody looked at any node, with a score for each.
///
/// # Errors
/// The body is not what kube-scheduler sends.
pub fn prioritize_by_serde_alone(body: &[u8]) -> anyhow::Result<Vec<u8>> {
    let FilterArgs { pod, nodes, node_names } = serde_json::from_slice(body)?;
    pod.context("a body has a pod")?;
    let of_nodes =
        || nodes.and_then(|nodes| nodes.items).unwrap_or_default().into_iter().map(|node| node.name);
    let names: Vec<NodeName<'_>> = node_names.unwrap_or_else(|| of_nodes().collect());
    let scores = names.into_iter().map(|host| NodeScore { host, score: 10 });
    Ok(serde_json::to_vec(&scores.collect::<Vec<_>>())?)
}

fn verbs_of(cluster: &Arc<Cluster>) -> (Filter, Prioritize) {
    let metrics = Arc::<Metrics>::default();
    let filter = Filter::new(Arc::clone(cluster), Arc::default(), Arc::clone(&metrics));
    (filter, Prioritize::new(Arc::clone(cluster), metrics))
}

fn lease(node: &str) -> ObservedLease {
    ObservedLease { node: node.to_owned(), renewed: String::new(), lasts: LEASE }
}

fn observed(node: &MeasuredNode) -> ObservedNode {
    let MeasuredNode { name, instance_type, .. } = node.clone();
    let advertised = Advertised { any: true, devices: true, cores: true };
    ObservedNode { name, instance_type: Some(instance_type), report: None, advertised }
}

/// The pod that holds what is held on the node, with its record.
fn holder(node: &MeasuredNode) -> Option<ObservedPod> {
    let MeasuredNode { name, instance_type, held } = node;
    let lnc = Catalog::embedded().find(instance_type)?.default_lnc;
    if held.is_empty() {
        return None;
    }
    let given = ContainerAllocation { cores: *held, ..ContainerAllocation::default() };
    let containers = [(MAIN.into(), given)].into_iter().collect();
    let annotations = Allocation { node: name.as_str().into(), lnc, containers }.annotations(true, "0");
    let limits = Amounts { neuroncore: Some(Quantity::new(&held.len().to_string())), ..Amounts::default() };
    let resources = Resources { limits, ..Resources::default() };
    let main = Container { name: MAIN.to_owned(), resources, ..Container::default() };
    let spec = PodSpec { node_name: Some(name.clone()), containers: vec![main], ..PodSpec::default() };
    let pod =
        BoundPod::new("default", format!("holder-{name}"), format!("uid-{name}"), annotations, &spec, None);
    let node = Some(name.as_str().into());
    Some(ObservedPod { node, unschedulable: false, device_model: None, owner: None, pod: Arc::new(pod) })
}
