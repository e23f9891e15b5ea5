//! `neuron-workload`, the container image that scenarios run: it prints what it got (its environment, and the device nodes
//! that it sees) and ends when told to.
//! The embedded cluster runs it as values ([`Workload`], [`Report`]); the image's `main` looks at the real files ([`seen`]).

mod arguments;
mod report;
pub mod seen;

pub use arguments::Workload;
pub use report::{NodeSeen, Report};
