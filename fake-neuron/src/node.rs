//! Keeps a cluster node's fake hardware as its Node object asks. Run by `fake-neuron node`, which is a DaemonSet
//! (deploy/fake-neuron.yml).

mod apply;
mod desired;
mod faults;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, PartialObjectMeta, Patch, PatchParams};
use kube::runtime::watcher::Event;
use neuron_core::catalog::Catalog;
use runtime::{Collection, Json};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::Machine;
use faults::Timed;

pub use apply::{ApplyError, apply, remove};
pub use desired::{AnnotationError, DesiredHardware, DeviceState};

/// The annotation that holds [`Applied`] as JSON.
pub const APPLIED: &str = "neuron-e2e/applied";

/// How long one call to the API server may take; kube repeats refused calls for minutes.
const API_TIMEOUT: Duration = Duration::from_secs(5);

/// What was applied last, shown on the node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// What was asked for, with the generation by which a waiter knows it.
    #[serde(rename = "wish")]
    pub desired: DesiredHardware,
    /// Why it could not be applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// The state of the hardware, for `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The node has not been seen yet.
    Waiting,
    /// The node is as desired: the instance type, `None` where none was desired.
    Stands(Option<String>),
    /// The node is not as desired: why.
    Failed(String),
}

/// Follows one node.
pub struct Keeper {
    /// The node's name at the API server.
    pub node: String,
    /// The folder that the hardware is made under.
    pub root: PathBuf,
    /// The instance types that can be made.
    pub catalog: Arc<Catalog>,
    /// Shows the hardware's state.
    pub state: watch::Sender<State>,
}

impl Keeper {
    /// Makes the node's hardware as its label and annotations ask, again after each change, until `shutdown`. The hardware
    /// stays while the API server is away.
    pub async fn run(&self, client: kube::Client, shutdown: CancellationToken) {
        let only = Collection::of::<Node>().only(format!("metadata.name={}", self.node));
        let events = runtime::watch::<PartialObjectMeta<Node>, _>(
            &runtime::System::real(),
            client.clone(),
            only,
            Json,
        );
        let mut events = pin!(events.take_until(shutdown.cancelled()));
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(client);
        let mut last: Option<Applied> = None;
        let mut timed = Timed::default();
        while let Some(event) = events.next().await {
            if let Ok(Event::InitApply(node) | Event::Apply(node)) = event {
                let annotations = node.metadata.annotations.unwrap_or_default();
                let labels = node.metadata.labels.unwrap_or_default();
                last = Some(self.follow(&nodes, &labels, &annotations, last.take(), &mut timed).await);
            }
        }
        timed.end().await;
    }

    /// Applies what the node asks for, unless that was done already, and shows it on the node.
    async fn follow(
        &self,
        nodes: &Api<PartialObjectMeta<Node>>,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        last: Option<Applied>,
        timed: &mut Timed,
    ) -> Applied {
        let shown: Option<Applied> =
            annotations.get(APPLIED).and_then(|text| serde_json::from_str(text).ok());
        let before = last.clone();
        let done = match (DesiredHardware::of(labels, annotations), last) {
            (Ok(desired), Some(last)) if last.desired == desired && last.error.is_none() => last,
            (Ok(desired), last) => {
                // After a restart the node's own annotation tells what was applied.
                let applied = last.or_else(|| shown.clone()).map(|applied| applied.desired);
                let error = self.apply(applied, &desired, timed).await;
                Applied { desired, error }
            }
            (Err(error), last) => {
                let mut desired = last.map(|last| last.desired).unwrap_or_default();
                desired.generation = DesiredHardware::generation_of(annotations);
                Applied { desired, error: Some(error.to_string()) }
            }
        };
        if before.as_ref() != Some(&done) {
            self.log(&done);
        }
        self.state.send_replace(match &done.error {
            Some(error) => State::Failed(error.clone()),
            None => State::Stands(done.desired.instance_type.clone()),
        });
        if shown.as_ref() != Some(&done) {
            self.show(nodes, &done).await;
        }
        done
    }

    async fn apply(
        &self,
        before: Option<DesiredHardware>,
        desired: &DesiredHardware,
        timed: &mut Timed,
    ) -> Option<String> {
        if before.as_ref().is_some_and(|before| before.is_same_machine(desired)) {
            timed.end_unless(&desired.faults).await;
        } else {
            timed.end().await;
        }
        let (root, catalog, wanted) = (self.root.clone(), Arc::clone(&self.catalog), desired.clone());
        let work = move || {
            apply(&root, before.as_ref(), &wanted, &catalog)?;
            // No hardware has no faults either.
            Ok::<_, ApplyError>(wanted.instance_type.map(|_| Machine::open(&root)).transpose()?)
        };
        match tokio::task::spawn_blocking(work).await {
            Ok(Ok(machine)) => {
                machine.into_iter().for_each(|machine| timed.begin(machine, &desired.faults));
                None
            }
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }

    fn log(&self, Applied { desired, error }: &Applied) {
        match error {
            None => tracing::info!(node = self.node, hardware = %desired, "applied"),
            Some(reason) => tracing::error!(node = self.node, hardware = %desired, reason, "not applied"),
        }
    }

    async fn show(&self, nodes: &Api<PartialObjectMeta<Node>>, done: &Applied) {
        let text = serde_json::to_string(done).unwrap_or_else(|error| error.to_string());
        let patch = serde_json::json!({"metadata": {"annotations": {APPLIED: text}}});
        let (patch, params) = (Patch::Merge(&patch), PatchParams::default());
        let written = nodes.patch_metadata(&self.node, &params, &patch);
        let reason = match tokio::time::timeout(API_TIMEOUT, written).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {API_TIMEOUT:?}"),
        };
        tracing::warn!(node = self.node, reason, "the node could not be annotated");
    }
}
