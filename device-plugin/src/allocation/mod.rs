//! Which ids a container gets, and what it gets for them. Called by the services in `kubelet`.

mod allocate;
pub mod cdi;
pub mod cross_resource;
pub mod deadlines;
pub mod engine;
pub mod export;
pub mod injection;
mod preferred;
pub mod refusal;
mod withdraw;
