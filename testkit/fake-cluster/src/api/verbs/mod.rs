//! What the server does for each verb of a request. Called by `routes`.

pub(crate) mod bind;
mod conflict;
pub(crate) mod create;
pub(crate) mod delete;
pub(crate) mod patch;
pub(crate) mod read;
pub(crate) mod selector;
mod topology_labels;
pub(crate) mod update;
pub(crate) mod watch;
