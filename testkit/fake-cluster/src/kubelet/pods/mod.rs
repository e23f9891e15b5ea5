//! The node's pods: which may run, what their containers do next, and what their status says.
//!
//! `watch` takes pods from the API server and lets `admission` decide one by one; `worker` then runs each pod by the plan
//! of `lifecycle`. `containers` are the node's, and `ends` brings about and tells how they end.

mod admission;
mod container_start;
pub(crate) mod containers;
pub(crate) mod ends;
mod grace;
mod lifecycle;
mod pod_api;
mod status;
pub(crate) mod table;
pub(crate) mod watch;
mod worker;
