//! Sends a scenario's manifests to the API server, with the cluster's own names in them. Used by [`crate::run`].

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};

use crate::cluster::NAMESPACE;
use crate::cluster::wait::until;
use crate::cluster::{Cluster, WORKLOAD};
use crate::scenario::Scenario;

/// Label of every pod that scenarios create, by which a cluster that others use too tells them apart.
pub const OURS: (&str, &str) = ("app.kubernetes.io/managed-by", "neuron-e2e");

/// Adds the label [`OURS`] to a manifest.
pub(crate) fn sign(manifest: &mut Value) {
    manifest["metadata"]["labels"][OURS.0] = json!(OURS.1);
}

/// Creates the pods of one scenario.
pub(crate) struct Applier<'a, C> {
    cluster: &'a C,
    scenario: &'a Scenario,
}

impl<C> Clone for Applier<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Applier<'_, C> {}

impl<'a, C: Cluster> Applier<'a, C> {
    /// An applier for a scenario on a cluster.
    pub(crate) fn new(cluster: &'a C, scenario: &'a Scenario) -> Self {
        Self { cluster, scenario }
    }

    /// Sends the manifest; the pod's name and what the API server answers.
    pub(crate) async fn post(
        self,
        manifest: &Value,
    ) -> anyhow::Result<(String, kube::Result<DynamicObject>)> {
        let object = self.prepared(manifest)?;
        let name = object.metadata.name.clone().context("a pod without a name")?;
        let kind = ApiResource::erase::<Pod>(&());
        let api: Api<DynamicObject> = Api::namespaced_with(self.cluster.client(), NAMESPACE, &kind);
        Ok((name, api.create(&PostParams::default(), &object).await))
    }

    /// Creates the pod as soon as the API server takes it.
    pub(crate) async fn create_once_served(self, manifest: &Value) -> anyhow::Result<()> {
        until(self.cluster, "the API server to take a pod", async || match self.post(manifest).await? {
            (_, Ok(_)) => Ok(true),
            // The try before has created it, and its answer was lost.
            (_, Err(kube::Error::Api(status))) if status.reason == "AlreadyExists" => Ok(true),
            (name, Err(error)) => Err(error).with_context(|| format!("creating pod {name}")),
        })
        .await
    }

    /// The manifest as it is sent: our scheduler's name where it names none, real names of nodes and image.
    fn prepared(self, manifest: &Value) -> anyhow::Result<DynamicObject> {
        let mut manifest = manifest.clone();
        if manifest["kind"] != "Pod" {
            bail!("scenarios apply pods, not {}", manifest["kind"]);
        }
        self.name_nodes(&mut manifest);
        sign(&mut manifest);
        let spec = &mut manifest["spec"];
        if spec["schedulerName"].is_null() {
            spec["schedulerName"] = json!(self.cluster.scheduler_name());
        }
        if let Some(node) = spec["nodeName"].as_str() {
            let place = self.scenario.place_of(node)?;
            spec["nodeName"] = json!(self.cluster.node_names()[place]);
        }
        for list in ["initContainers", "containers"] {
            for container in spec[list].as_array_mut().into_iter().flatten() {
                if container["image"] == WORKLOAD {
                    container["image"] = json!(self.cluster.workload_image());
                }
            }
        }
        if spec["terminationGracePeriodSeconds"].is_null() {
            spec["terminationGracePeriodSeconds"] = json!(1);
        }
        Ok(serde_json::from_value(manifest)?)
    }

    /// Gives the nodes that annotations name, as JSON in JSON, their real names.
    pub(crate) fn name_nodes(self, manifest: &mut Value) {
        let annotations = manifest.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
        for value in annotations.into_iter().flat_map(|all| all.values_mut()) {
            let Some(mut text) = value.as_str().map(str::to_owned) else { continue };
            for (place, name) in self.cluster.node_names().iter().enumerate() {
                text = text.replace(&format!("\"n{}\"", place + 1), &format!("\"{name}\""));
            }
            *value = json!(text);
        }
    }
}
