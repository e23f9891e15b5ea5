//! The views of all nodes, by name. Kept by the index.
#![expect(
    clippy::disallowed_types,
    reason = "a call of filter looks up thousands of nodes, four times as fast as in a BTreeMap; nobody can iterate over it"
)]

use std::collections::HashMap;

use super::NodeView;

/// The views, of which one can only be looked up by its name: in a hash map they stand in no order.
#[derive(Debug, Default)]
pub(super) struct Views {
    by_name: HashMap<String, NodeView>,
}

impl Views {
    /// The view of this node.
    pub(super) fn get(&self, node: &str) -> Option<&NodeView> {
        self.by_name.get(node)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, node: &str) -> Option<&mut NodeView> {
        self.by_name.get_mut(node)
    }

    /// Takes the place of the node's view before.
    pub(super) fn insert(&mut self, view: NodeView) {
        match self.by_name.get_mut(&view.name) {
            Some(known) => *known = view,
            None => drop(self.by_name.insert(view.name.clone(), view)),
        }
    }

    /// The node is gone. Its view, if it had one.
    pub(super) fn remove(&mut self, node: &str) -> Option<NodeView> {
        self.by_name.remove(node)
    }
}
