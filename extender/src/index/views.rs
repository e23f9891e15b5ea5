//! The views of all nodes, by name. Kept by the index.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::NodeView;

/// The views, of which one can only be looked up by its name: in a hash map they stand in no order. A call of filter looks up thousands.
/// Who may make up nodes' names could make the hashes of many collide, and may do worse.
#[derive(Debug, Default)]
pub(super) struct Views {
    /// Boxed, so that the table stays small enough for the processor's cache.
    by_name: FxHashMap<Arc<str>, Box<NodeView>>,
}

impl Views {
    /// The view of this node.
    pub(super) fn get(&self, node: &str) -> Option<&NodeView> {
        self.by_name.get(node).map(Box::as_ref)
    }

    /// The same, to be changed.
    pub(super) fn get_mut(&mut self, node: &str) -> Option<&mut NodeView> {
        self.by_name.get_mut(node).map(Box::as_mut)
    }

    /// Takes the place of the node's view before.
    pub(super) fn insert(&mut self, view: NodeView) {
        match self.by_name.get_mut(&view.name) {
            Some(known) => **known = view,
            None => drop(self.by_name.insert(Arc::clone(&view.name), Box::new(view))),
        }
    }

    /// The node is gone. Its view, if it had one.
    pub(super) fn remove(&mut self, node: &str) -> Option<NodeView> {
        self.by_name.remove(node).map(|view| *view)
    }
}
