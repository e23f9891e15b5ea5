//! What the suite keeps of a failure on kind.

use kind_driver::Evidence;
use neuron_core::names;
use neuron_e2e_engine::cluster::NAMESPACE;

use super::KindCluster;
use super::install::SYSTEM;

const EVIDENCE: Evidence<'_> = Evidence {
    namespaces: &[NAMESPACE, SYSTEM],
    objects: &[("config-maps.yaml", &["get", "configmaps", "-n", SYSTEM, "-o", "yaml"])],
    resources: &[names::NEURON, names::NEURONCORE],
};

impl KindCluster {
    /// The error, with where to find what there is to see of it.
    pub(crate) async fn with_evidence(&self, of: &str, error: anyhow::Error) -> anyhow::Error {
        self.driver.with_evidence(of, EVIDENCE, error).await
    }

    /// Keeps what there is to see, and says where, or why there is nothing.
    pub(crate) async fn evidence(&self, of: &str) -> String {
        self.driver.evidence(of, EVIDENCE).await
    }
}
