//! The node's pods: which may run, what their containers do next, and what their status says.
//!
//! `watch` takes pods from the API server and lets `admission` decide one by one; `worker` then runs each pod by the plan
//! of `lifecycle`.

mod admission;
pub(crate) mod containers;
mod lifecycle;
mod status;
pub(crate) mod table;
pub(crate) mod watch;
mod worker;
