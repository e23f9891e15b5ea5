//! What kube-scheduler asks: `/filter` and `/bind`. Called by the routes.

pub(crate) mod bind;
mod filter;
mod refusal_log;

pub(crate) use self::filter::Filter;
