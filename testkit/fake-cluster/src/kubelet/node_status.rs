//! The Node object: registered at start, then its capacity and allocatable are written some time after each change, with
//! the delay of a real kubelet, and as a heartbeat, if there are any.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use runtime::reached;
use serde_json::json;

use super::device_manager::plugins::{Counted, Totals};
use super::shared::{Shared, locked};
use crate::amounts::Amounts;
use crate::clock::{later, rfc3339};

/// What every node has besides devices: enough that devices are the scarce resource.
const BASIC_RESOURCES: [(&str, &str); 3] = [("cpu", "64"), ("memory", "512Gi"), ("pods", "110")];

/// How long to wait before a refused status is tried again, by tokio's time.
const RETRY: Duration = Duration::from_millis(100);
/// How long a status stands that has not changed (kubelet's `nodeStatusReportFrequency`), and by chance up to 4 % longer.
const REPORT_PERIOD: Duration = Duration::from_secs(5 * 60);
const JITTER: f64 = 0.04;

/// Creates the Node or takes over an existing one, then writes the first status.
pub(crate) async fn register(shared: &Arc<Shared>) -> kube::Result<()> {
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let name = &shared.config.node;
    let labels = json!({ "metadata": { "labels": shared.config.labels } });
    let existing = nodes.get_opt(name).await?;
    if existing.is_some() {
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(&labels)).await?;
    } else {
        let mut node = Node::default();
        node.metadata.name = Some(name.clone());
        node.metadata.labels = Some(shared.config.labels.clone());
        nodes.create(&PostParams::default(), &node).await?;
    }
    // A kubelet without a checkpoint resets resources that the Node still shows; with one it leaves those alone that the
    // device manager does not know (`reconcileExtendedResource`).
    let status = existing.and_then(|node| node.status).unwrap_or_default();
    let shown = [Amounts::of(status.capacity.as_ref()), Amounts::of(status.allocatable.as_ref())];
    let mut written: Totals = present_totals(shared).await.totals;
    for (counts, shown) in [&mut written.capacity, &mut written.allocatable].into_iter().zip(shown) {
        for (resource, count) in shown.iter().filter(|(resource, _)| resource.contains('/')) {
            let count = if shared.had_checkpoint { count } else { 0 };
            counts.entry(resource.clone()).or_insert(count);
        }
    }
    write(shared, &nodes, &written).await
}

/// Writes the status `status_period` after each change, and for heartbeats, until the kubelet stops.
pub(crate) async fn run(shared: Arc<Shared>) {
    let nodes: Api<Node> = Api::all(shared.client.clone());
    let mut written = Totals::default();
    let mut heartbeat = next_heartbeat(&shared);
    let follow = async {
        loop {
            let expiry = locked(&shared.devices).plugins.next_expiry();
            let wake = expiry.into_iter().chain(heartbeat).min();
            // A change is written with the status period's delay, whatever is forgotten meanwhile.
            tokio::select! {
                biased;
                () = shared.devices_changed.notified() => shared.clock.sleep(shared.config.status_period).await,
                () = shared.clock.sleep_until(wake.unwrap_or_default()), if wake.is_some() => {}
            }
            let Counted { mut totals, forgotten } = present_totals(&shared).await;
            // As in kubelet, a forgotten resource stays on the Node with 0, which one status says: where that is not written, the Node
            // keeps its capacity, from which allocatable is made then (docs/reference/kubernetes.md §7).
            for (resource, shown) in &written.capacity {
                let count = if forgotten.contains(resource) { 0 } else { *shown };
                if !totals.capacity.contains_key(resource) {
                    if count > 0 {
                        reached("cluster: devices of a plugin long gone are allocatable");
                    }
                    totals.capacity.insert(resource.clone(), count);
                    totals.allocatable.insert(resource.clone(), count);
                }
            }
            let is_due = heartbeat.is_some_and(|heartbeat| heartbeat <= shared.clock.now());
            if totals != written || is_due {
                match write(&shared, &nodes, &totals).await {
                    Ok(()) => {
                        written = totals;
                        heartbeat = next_heartbeat(&shared);
                    }
                    Err(error) => {
                        reached("cluster: a node's status was not written");
                        tracing::warn!(node = shared.config.node, %error, "cannot write the node status");
                        tokio::time::sleep(RETRY).await;
                        // It may have been written all the same: kubelet reads the Node before each status.
                        if let Ok(Some(node)) = nodes.get_opt(&shared.config.node).await {
                            written = shown(&node);
                            let allocatable = node.status.and_then(|status| status.allocatable);
                            *locked(&shared.reported_allocatable) = allocatable.unwrap_or_default();
                        }
                        shared.devices_changed.notify_one();
                    }
                }
            }
        }
    };
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = follow => {}
    }
}

/// The extended resources that the Node shows.
fn shown(node: &Node) -> Totals {
    let status = node.status.as_ref();
    let of = |amounts: Option<&BTreeMap<String, Quantity>>| -> BTreeMap<String, i64> {
        let amounts = Amounts::of(amounts);
        let extended = amounts.iter().filter(|(resource, _)| resource.contains('/'));
        extended.map(|(resource, count)| (resource.clone(), count)).collect()
    };
    Totals {
        capacity: of(status.and_then(|status| status.capacity.as_ref())),
        allocatable: of(status.and_then(|status| status.allocatable.as_ref())),
    }
}

/// When the status is written though nothing has changed.
fn next_heartbeat(shared: &Shared) -> Option<Timestamp> {
    let chance = shared.system.random() as f64 / u64::MAX as f64;
    let period = REPORT_PERIOD.mul_f64(1.0 + JITTER * chance);
    shared.config.heartbeats.then(|| later(shared.clock.now(), period))
}

/// The counts now. A resource that is forgotten with them leaves the checkpoint too, as in kubelet's GetCapacity.
async fn present_totals(shared: &Arc<Shared>) -> Counted {
    let counted = locked(&shared.devices).plugins.totals(shared.clock.now());
    if !counted.forgotten.is_empty() {
        // What is not written now, the next write has.
        let _ = shared.save_checkpoint().await;
    }
    counted
}

async fn write(shared: &Shared, nodes: &Api<Node>, totals: &Totals) -> kube::Result<()> {
    let list = |extended: &BTreeMap<String, i64>| -> BTreeMap<String, Quantity> {
        let basics =
            BASIC_RESOURCES.iter().map(|(name, amount)| ((*name).to_owned(), Quantity((*amount).to_owned())));
        basics
            .chain(extended.iter().map(|(name, count)| (name.clone(), Quantity(count.to_string()))))
            .collect()
    };
    let now = rfc3339(shared.clock.now());
    let allocatable = list(&totals.allocatable);
    let status = json!({ "status": {
        "capacity": list(&totals.capacity),
        "allocatable": allocatable,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": "kubelet is posting ready status", "lastHeartbeatTime": now, "lastTransitionTime": rfc3339(shared.started),
        }],
        "nodeInfo": { "kubeletVersion": shared.api.version().behaviour().release },
    }});
    nodes.patch_status(&shared.config.node, &PatchParams::default(), &Patch::Merge(&status)).await?;
    *locked(&shared.reported_allocatable) = allocatable;
    Ok(())
}
