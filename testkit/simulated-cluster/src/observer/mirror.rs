//! The objects as the API server has them now. Kept by what it tells at every write; read by the observer and the controllers.

use std::collections::BTreeMap;
use std::sync::Arc;

use fake_cluster::api::Observed;
use serde_json::Value;

/// Namespace and name.
pub type Key = (String, String);

/// The objects that are there.
#[derive(Clone, Debug, Default)]
pub struct Mirror {
    /// Pods.
    pub pods: BTreeMap<Key, Arc<Value>>,
    /// Nodes, by name.
    pub nodes: BTreeMap<String, Arc<Value>>,
    /// The Leases of `kube-node-lease`, by the node's name.
    pub node_leases: BTreeMap<String, Arc<Value>>,
}

impl Mirror {
    /// Takes over a write.
    pub(crate) fn change(&mut self, write: &Observed<'_>) {
        let (name, namespace) = (write.name.to_owned(), write.namespace.to_owned());
        let after = write.after.cloned();
        match write.kind {
            "Pod" => put(&mut self.pods, (namespace, name), after),
            "Node" => put(&mut self.nodes, name, after),
            "Lease" if namespace == "kube-node-lease" => put(&mut self.node_leases, name, after),
            _ => {}
        }
    }
}

fn put<K: Ord>(objects: &mut BTreeMap<K, Arc<Value>>, key: K, after: Option<Arc<Value>>) {
    match after {
        Some(object) => drop(objects.insert(key, object)),
        None => drop(objects.remove(&key)),
    }
}
