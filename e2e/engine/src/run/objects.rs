//! Objects of the whole cluster that a scenario creates beside its pods. Created by [`super::steps`], removed by
//! [`super::run`].

use anyhow::Context as _;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::Value;

use super::Run;
use super::apply::sign;
use crate::cluster::Cluster;

/// An object that a step has created.
pub(super) struct Created {
    kind: ApiResource,
    name: String,
}

impl<C: Cluster> Run<'_, C> {
    /// Creates the object, or makes one that an earlier run left what it should be.
    pub(super) async fn create_object(&mut self, manifest: &Value) -> anyhow::Result<()> {
        let mut manifest = manifest.clone();
        sign(&mut manifest);
        let object: DynamicObject =
            serde_json::from_value(manifest).context("an object without metadata, apiVersion and kind")?;
        let types = object.types.as_ref().context("an object without apiVersion and kind")?;
        let kind = ApiResource::from_gvk(&GroupVersionKind::try_from(types)?);
        let name = object.metadata.name.clone().context("an object without a name")?;
        let api: Api<DynamicObject> = Api::all_with(self.cluster.client(), &kind);
        let params = PatchParams::apply("neuron-e2e").force();
        api.patch(&name, &params, &Patch::Apply(&object))
            .await
            .with_context(|| format!("creating {} {name}", kind.kind))?;
        self.created.push(Created { kind, name });
        Ok(())
    }

    /// Removes every object that a step has created, the last one first.
    pub(super) async fn remove_objects(&mut self) -> anyhow::Result<()> {
        while let Some(Created { kind, name }) = self.created.pop() {
            let api: Api<DynamicObject> = Api::all_with(self.cluster.client(), &kind);
            let removed = api.delete(&name, &DeleteParams::default()).await;
            removed.with_context(|| format!("removing {} {name}", kind.kind))?;
        }
        Ok(())
    }
}
