//! Which node a pod gets: the in-tree filters, the extenders' filters, then the scores. Called by `scheduling_loop`.

pub(crate) mod cycle;
pub(crate) mod diagnosis;
mod node_filters;
pub(crate) mod preemption;
mod resource_fit;
mod score;
