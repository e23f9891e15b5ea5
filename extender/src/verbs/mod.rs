//! What kube-scheduler asks: `/filter` and `/bind`. Called by the routes.

pub(crate) mod bind;
pub(crate) mod filter;
