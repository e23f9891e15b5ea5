//! Which nodes of a cluster are containers of this machine's Docker, as kind's are: only these have a shell for us.
//! Called by this folder only.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;

use super::super::nodes::in_container;
use super::super::program;

/// Nodes that are containers here, and the kind cluster that each belongs to.
#[derive(Debug, Default)]
pub(super) struct Containers(BTreeMap<String, String>);

impl Containers {
    /// Those of these nodes that are. Another machine's container may have the same name, so the machine's id must be
    /// the node's too. None where there is no Docker.
    pub(super) async fn among(nodes: &[Node]) -> Self {
        let format = r#"{{.Names}} {{.Label "io.x-k8s.kind.cluster"}}"#;
        let listing = ["ps", "--filter", "label=io.x-k8s.kind.cluster", "--format", format];
        let listed = program::output("docker", &listing).await.unwrap_or_default();
        let listed: BTreeMap<&str, &str> = listed.lines().filter_map(|line| line.split_once(' ')).collect();
        let mut found = BTreeMap::new();
        for node in nodes {
            let (Some(name), Some(status)) = (&node.metadata.name, &node.status) else { continue };
            let Some(cluster) = listed.get(name.as_str()) else { continue };
            let here = in_container(name, "cat /etc/machine-id").await.unwrap_or_default();
            if status.node_info.as_ref().is_some_and(|info| info.machine_id == here.trim()) {
                found.insert(name.clone(), (*cluster).to_owned());
            }
        }
        Self(found)
    }

    /// Their names.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Whether this node is one.
    pub(super) fn has(&self, node: &str) -> bool {
        self.0.contains_key(node)
    }

    /// The kind cluster that they belong to.
    pub(super) fn cluster(&self) -> Option<&str> {
        self.0.values().next().map(String::as_str)
    }

    /// For tests: these nodes are.
    #[cfg(test)]
    pub(super) fn of(names: &[&str]) -> Self {
        Self(names.iter().map(|name| ((*name).to_owned(), "kind".to_owned())).collect())
    }
}
