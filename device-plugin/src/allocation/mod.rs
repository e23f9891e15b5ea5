//! Which ids a container gets, and what it gets for them. Called by `kubelet`'s service.

pub mod engine;
pub mod export;
