//! Which ids a container gets, and what it gets for them. Called by the services in `kubelet`.

pub mod engine;
pub mod export;
pub mod refusal;
