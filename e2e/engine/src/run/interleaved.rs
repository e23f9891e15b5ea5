//! Steps that fall into the middle of a placement: `hold` and `during`. Called by [`super::steps`].

use kube::api::ListParams;
use serde_json::Value;

use super::Run;
use super::apply::Applier;
use crate::cluster::Cluster;
use crate::cluster::wait::until;
use crate::observe::is_bound;
use crate::scenario::{During, Hold};

impl<C: Cluster> Run<'_, C> {
    /// Creates pods, holds a call about them, carries the steps out meanwhile, and lets the call go on.
    pub(super) async fn hold(&mut self, Hold { at, apply, steps }: &Hold) -> anyhow::Result<()> {
        let name = |manifest: &Value| manifest["metadata"]["name"].as_str().map(str::to_owned);
        let pods: Vec<String> = apply.iter().filter_map(name).collect();
        self.cluster.hold(*at, &pods).await?;
        for manifest in apply {
            self.create(manifest).await?;
        }
        until(self.cluster, &format!("a call to be held {at}"), async || Ok(self.cluster.is_held(*at)))
            .await?;
        for step in steps {
            Box::pin(self.step(step)).await?;
        }
        self.cluster.release(*at).await?;
        for name in &pods {
            self.settle(name).await?;
        }
        Ok(())
    }

    /// Creates pods, and once some of them are bound carries the steps out while others are being created. The last
    /// ones come when the steps are done: whatever these break, they break it before all pods are placed.
    pub(super) async fn during(&mut self, during: &During) -> anyhow::Result<()> {
        let During { apply, bound, steps } = during;
        let [first, meanwhile, last] = during.groups();
        for manifest in first {
            self.create(manifest).await?;
        }
        let pods = self.pods();
        until(self.cluster, &format!("{bound} pods to be bound"), async || {
            let pods = pods.list(&ListParams::default()).await?;
            Ok(pods.items.iter().filter(|pod| is_bound(pod)).count() >= *bound)
        })
        .await?;
        let applier = Applier::new(self.cluster, self.scenario);
        let others = async {
            for manifest in meanwhile {
                applier.create_once_served(manifest).await?;
            }
            Ok(())
        };
        let faults = async {
            for step in steps {
                Box::pin(self.step(step)).await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(faults, others)?;
        for manifest in last {
            applier.create_once_served(manifest).await?;
        }
        for manifest in apply {
            if let Some(name) = manifest["metadata"]["name"].as_str() {
                self.settle(name).await?;
            }
        }
        Ok(())
    }
}
