//! Names that the whole cluster goes by.

/// The name of the scheduler that pods have to ask for.
pub const SCHEDULER: &str = "my-scheduler";

/// The namespace of all pods.
pub(crate) const NAMESPACE: &str = "default";
