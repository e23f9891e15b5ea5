//! The kubelet's heartbeat: its Lease, renewed while it runs (component-helpers' lease controller). One task per kubelet that
//! has heartbeats.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::PostParams;
use runtime::reached;

use super::shared::Shared;

/// Where the Leases of nodes are.
const NAMESPACE: &str = "kube-node-lease";
/// How long a Lease says that the kubelet lives after it was renewed (`nodeLeaseDurationSeconds`).
const DURATION_SECONDS: i32 = 40;
/// A quarter of it lies between two renewals, and by chance up to 4 % more.
const RENEW_INTERVAL: Duration = Duration::from_secs(10);
const JITTER: f64 = 0.04;
/// First and longest wait after a renewal that failed; it doubles.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(7));

/// Renews the Lease until the kubelet stops.
pub(super) async fn run(shared: Arc<Shared>) {
    let leases: Api<Lease> = Api::namespaced(shared.client.clone(), NAMESPACE);
    let renew = async {
        let mut latest = None;
        loop {
            let mut retry = RETRY.0;
            loop {
                match renewed(&shared, &leases, latest.take()).await {
                    Ok(lease) => {
                        latest = Some(lease);
                        break;
                    }
                    Err(error) => {
                        reached("cluster: a lease was not renewed");
                        tracing::warn!(node = shared.config.node, %error, "the lease was not renewed");
                        shared.clock.sleep(retry).await;
                        retry = (retry * 2).min(RETRY.1);
                    }
                }
            }
            let chance = shared.system.random() as f64 / u64::MAX as f64;
            shared.clock.sleep(RENEW_INTERVAL.mul_f64(1.0 + JITTER * chance)).await;
        }
    };
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = renew => {}
    }
}

/// The Lease as it is after this renewal. `latest` is what it was after the one before; without it, it is read or made.
async fn renewed(shared: &Shared, leases: &Api<Lease>, latest: Option<Lease>) -> kube::Result<Lease> {
    let name = &shared.config.node;
    let present = match latest {
        Some(lease) => Some(lease),
        None => leases.get_opt(name).await?,
    };
    let now = Some(MicroTime(shared.clock.now()));
    if let Some(mut lease) = present {
        lease.spec.get_or_insert_default().renew_time = now;
        return leases.replace(name, &PostParams::default(), &lease).await;
    }
    let node = Api::<Node>::all(shared.client.clone()).get(name).await?;
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.clone(),
        uid: node.metadata.uid.unwrap_or_default(),
        ..OwnerReference::default()
    };
    let metadata = ObjectMeta {
        name: Some(name.clone()),
        namespace: Some(NAMESPACE.to_owned()),
        owner_references: Some(vec![owner]),
        ..ObjectMeta::default()
    };
    let spec = LeaseSpec {
        holder_identity: Some(name.clone()),
        lease_duration_seconds: Some(DURATION_SECONDS),
        renew_time: now,
        ..LeaseSpec::default()
    };
    let lease = Lease { metadata, spec: Some(spec) };
    leases.create(&PostParams::default(), &lease).await
}
