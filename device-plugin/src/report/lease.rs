//! The Lease that says that this plugin lives: whoever reads the node report can tell an old one by it. Nothing waits for it.
//! Started by `run`.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, OwnerReference};
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, Patch, PatchParams, PostParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client, ResourceExt};
use neuron_core::names::PLUGIN_LEASE;
use runtime::{System, reached};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;

use crate::config::Config;
use crate::status::Status;

/// Renewals that may be missed before a Lease expires.
const RENEWALS: u32 = 4;
/// A first renewal that takes longer may come after the first report.
const LATE: Duration = Duration::from_secs(1);
/// The part's name in the status.
const PART: &str = "lease";

/// Keeps the Lease of one node.
pub(crate) struct LeaseUpkeep {
    system: System,
    leases: Api<Lease>,
    nodes: Api<Node>,
    node: String,
    renewal: Duration,
    timeout: Duration,
    status: Arc<Status>,
    /// Told when it is renewed after it had expired.
    revived: Arc<Notify>,
}

impl LeaseUpkeep {
    /// The Lease of the node in `namespace`.
    pub(crate) fn new(
        system: System,
        client: Client,
        config: &Config,
        namespace: &str,
        status: Arc<Status>,
        revived: Arc<Notify>,
    ) -> Self {
        LeaseUpkeep {
            system,
            leases: Api::namespaced(client.clone(), namespace),
            nodes: Api::all(client),
            node: config.node_name.clone(),
            renewal: config.lease_renewal,
            // Nothing waits for it: a slow API server is given nearly as long as the next renewal is off.
            timeout: config.api_timeout.max(config.lease_renewal * 4 / 5),
            status,
            revived,
        }
    }

    /// Renews it until `shutdown`. That it has expired is a note of the status, and nothing more: devices are served without it.
    pub(crate) async fn run(self, shutdown: CancellationToken) {
        let mut turn = interval(self.renewal);
        turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let renewals = async {
            let (mut renewed_at, mut is_noted) = (Instant::now(), false);
            // The Lease of the process before this one may have expired, and the first report may be written before the renewal.
            let (mut is_first, mut may_have_expired) = (true, false);
            loop {
                turn.tick().await;
                let asked = Instant::now();
                let Err(reason) = self.renew().await else {
                    self.status.clear_note(PART);
                    may_have_expired |= is_first && asked.elapsed() > LATE;
                    if may_have_expired || renewed_at.elapsed() > self.renewal * RENEWALS {
                        reached("plugin: lease renewed after its end");
                        self.revived.notify_one();
                    }
                    (renewed_at, is_noted) = (Instant::now(), false);
                    (is_first, may_have_expired) = (false, false);
                    continue;
                };
                reached("plugin: lease not renewed");
                may_have_expired = is_first;
                if !is_noted && renewed_at.elapsed() > self.renewal * RENEWALS {
                    self.status.note(PART, &format!("Lease {} has expired: {reason}", self.name()));
                    is_noted = true;
                }
            }
        };
        shutdown.run_until_cancelled(renewals).await;
    }

    async fn renew(&self) -> Result<(), String> {
        match tokio::time::timeout(self.timeout, self.try_renew()).await {
            Ok(renewed) => renewed.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {:?}", self.timeout)),
        }
    }

    /// Renews the Lease, or makes it. It goes with its Node, as that of kubelet does.
    async fn try_renew(&self) -> kube::Result<()> {
        // A clock beyond the year 9999 gives no time.
        let now = Timestamp::try_from(self.system.now()).ok();
        let patch = json!({"spec": {
            "holderIdentity": self.node,
            "leaseDurationSeconds": self.seconds(),
            "renewTime": now.map(MicroTime),
        }});
        let renewed = self.leases.patch(&self.name(), &PatchParams::default(), &Patch::Merge(&patch)).await;
        match renewed {
            Err(kube::Error::Api(status)) if status.is_not_found() => {
                let lease = self.lease(&self.nodes.get_metadata(&self.node).await?, now);
                self.leases.create(&PostParams::default(), &lease).await.map(drop)
            }
            answer => answer.map(drop),
        }
    }

    fn lease(&self, node: &PartialObjectMeta<Node>, now: Option<Timestamp>) -> Lease {
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Node".to_owned(),
            name: self.node.clone(),
            uid: node.uid().unwrap_or_default(),
            ..OwnerReference::default()
        };
        Lease {
            metadata: ObjectMeta {
                name: Some(self.name()),
                owner_references: Some(vec![owner]),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.node.clone()),
                lease_duration_seconds: Some(self.seconds()),
                renew_time: now.map(MicroTime),
                ..LeaseSpec::default()
            }),
        }
    }

    /// How long after a renewal the Lease expires: at least a second, as the API server wants it.
    fn seconds(&self) -> i32 {
        i32::try_from((self.renewal * RENEWALS).as_secs()).unwrap_or(i32::MAX).max(1)
    }

    fn name(&self) -> String {
        format!("{PLUGIN_LEASE}-{}", self.node)
    }
}
