//! The labels that a pod takes over from its node (Kubernetes' admission plugin PodTopologyLabels). Used by `bind` and
//! `create`.

use crate::api::kinds::table::NODES;
use crate::api::store::{Key, State};

/// The labels that the plugin copies.
const COPIED: [&str; 2] = ["topology.kubernetes.io/zone", "topology.kubernetes.io/region"];

/// Zone and region of the node, as far as it has them; none for a node that does not exist.
pub(super) fn of_node(state: &State, node: &str) -> Vec<(String, String)> {
    let node = state.get(NODES.collection, &Key::new("", node));
    let label = |name: &str| Some(node?.get("metadata")?.get("labels")?.get(name)?.as_str()?.to_owned());
    COPIED.iter().filter_map(|name| Some(((*name).to_owned(), label(name)?))).collect()
}
