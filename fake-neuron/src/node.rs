//! Keeps a cluster node's fake hardware: a task that follows its Node object. Called by `fake-neuron node`, which
//! runs as a DaemonSet (deploy/fake-neuron.yml).

mod apply;
mod wish;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::pin;
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

pub use apply::{ApplyError, apply, remove};
pub use wish::{DeviceState, Wish, WishError};

/// Annotation with what was done last: [`Applied`] as JSON.
pub const APPLIED: &str = "neuron-e2e/applied";

/// How long one answer of the API server may take; kube repeats refused calls for minutes.
const API_DEADLINE: Duration = Duration::from_secs(5);

/// What the node shows of itself once its wish was carried out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Applied {
    /// The wish, with the generation that whoever waits has set.
    pub wish: Wish,
    /// Why the wish could not be carried out; nobody should go on then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What is known of the hardware, for `/healthz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// The node has not been seen yet.
    Waiting,
    /// As wished; the instance type, `None` where none was asked for.
    Stands(Option<String>),
    /// Not as wished, and why.
    Failed(String),
}

/// Follows one node.
pub struct Keeper {
    /// The node's name at the API server.
    pub node: String,
    /// Where the hardware is made.
    pub root: PathBuf,
    /// Tells what became of it.
    pub state: watch::Sender<State>,
}

impl Keeper {
    /// Makes the node's hardware as its label and annotations ask, again after each change, until `shutdown`. An API
    /// server that is away is asked again and again; the hardware stays meanwhile.
    pub async fn run(&self, client: kube::Client, shutdown: CancellationToken) {
        let only = Collection::of::<Node>().only(format!("metadata.name={}", self.node));
        let events = runtime::watch::<PartialObjectMeta<Node>, _>(client.clone(), only, Json);
        let mut events = pin!(events.take_until(shutdown.cancelled()));
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(client);
        let mut last: Option<Applied> = None;
        while let Some(event) = events.next().await {
            if let Ok(Event::InitApply(node) | Event::Apply(node)) = event {
                let annotations = node.metadata.annotations.unwrap_or_default();
                let labels = node.metadata.labels.unwrap_or_default();
                last = Some(self.follow(&nodes, &labels, &annotations, last.take()).await);
            }
        }
    }

    /// Carries out what the node asks for, unless that was done already, and says so on the node.
    async fn follow(
        &self,
        nodes: &Api<PartialObjectMeta<Node>>,
        labels: &BTreeMap<String, String>,
        annotations: &BTreeMap<String, String>,
        last: Option<Applied>,
    ) -> Applied {
        let shown: Option<Applied> =
            annotations.get(APPLIED).and_then(|text| serde_json::from_str(text).ok());
        let wished = Wish::of(labels, annotations);
        let done = match (wished, last) {
            (Ok(wish), Some(last)) if last.wish == wish && last.error.is_none() => last,
            (Ok(wish), last) => {
                // After a restart the node itself remembers what stands.
                let before = last.or_else(|| shown.clone()).map(|applied| applied.wish);
                let error = self.carry_out(before, &wish).await;
                Applied { wish, error }
            }
            (Err(error), last) => {
                let mut wish = last.map(|last| last.wish).unwrap_or_default();
                wish.generation = Wish::generation_of(annotations);
                Applied { wish, error: Some(error.to_string()) }
            }
        };
        self.state.send_replace(match &done.error {
            Some(error) => State::Failed(error.clone()),
            None => State::Stands(done.wish.instance_type.clone()),
        });
        if shown.as_ref() != Some(&done) {
            self.show(nodes, &done).await;
        }
        done
    }

    async fn carry_out(&self, before: Option<Wish>, wish: &Wish) -> Option<String> {
        let (root, wanted) = (self.root.clone(), wish.clone());
        let work = move || apply(&root, before.as_ref(), &wanted, Catalog::embedded());
        let error = match tokio::task::spawn_blocking(work).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(error.to_string()),
            Err(error) => Some(error.to_string()),
        };
        match &error {
            None => tracing::info!("node {}: {wish}", self.node),
            Some(error) => tracing::error!("node {}: {wish}: {error}", self.node),
        }
        error
    }

    async fn show(&self, nodes: &Api<PartialObjectMeta<Node>>, done: &Applied) {
        let text = serde_json::to_string(done).unwrap_or_else(|error| error.to_string());
        let patch = serde_json::json!({"metadata": {"annotations": {APPLIED: text}}});
        let (patch, params) = (Patch::Merge(&patch), PatchParams::default());
        let written = nodes.patch_metadata(&self.node, &params, &patch);
        match tokio::time::timeout(API_DEADLINE, written).await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::warn!("node {} could not be told what was done: {error}", self.node),
            Err(_) => tracing::warn!("node {} could not be told what was done in time", self.node),
        }
    }
}
