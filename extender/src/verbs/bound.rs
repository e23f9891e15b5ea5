//! What becomes of a bind that succeeds. Told by the binder, read by the routes and the classic log.

use std::collections::BTreeMap;
use std::sync::Arc;

/// A pod that is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Bound with this record.
    WithRecord(Arc<BTreeMap<String, String>>),
    /// Bound without a record: it asks for no Neuron hardware, or a ResourceClaim gives it.
    WithoutDevices,
    /// Bound here before, with a record that counts.
    Already,
}

impl Bound {
    /// What metrics call it.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Bound::WithRecord(_) | Bound::WithoutDevices => "bound",
            Bound::Already => "already",
        }
    }
}
