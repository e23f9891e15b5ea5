//! Scenarios of the Neuron scheduling suite: nodes, steps and expectations as a file, carried out with the production
//! extender and device plugin, and what must hold of what came of it.
//!
//! A scenario runs on the [`embedded`] cluster, which is in this process and needs neither Kubernetes nor hardware:
//!
//! ```
//! use neuron_e2e_engine::embedded;
//! use neuron_e2e_engine::scenario::{CatalogSource, library};
//!
//! const SCENARIO: &str = "
//! about: A pod gets two linked devices.
//! nodes: [{type: inf2.24xlarge}]
//! steps:
//! - apply:
//!   - apiVersion: v1
//!     kind: Pod
//!     metadata: {name: pair}
//!     spec:
//!       containers:
//!       - {name: main, image: neuron-workload, resources: {limits: {aws.amazon.com/neuron: 2}}}
//! expect:
//!   pair: {phase: Running, node: n1}
//! ";
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> anyhow::Result<()> {
//! for scenario in library::parse("two-devices", SCENARIO, &CatalogSource::default())? {
//!     let finished = embedded::run(&scenario, embedded::Options::default()).await?;
//!     assert_eq!(finished.failures, Vec::<String>::new());
//!     let container = &finished.outcome.pods["pair"].containers["main"];
//!     assert_eq!(container.env["AWS_NEURON_VISIBLE_DEVICES"], "0,1");
//!     assert_eq!(container.devices, ["/dev/neuron0", "/dev/neuron1"]);
//! }
//! # Ok(()) }
//! ```
//!
//! | question | answered in |
//! |---|---|
//! | what may a scenario file say? | [`scenario`] |
//! | what must a cluster be able to do? | [`cluster`] |
//! | what does a step do, and what does it wait for? | [`run`] |
//! | what came of it, and is that as the file expects? | [`outcome`] |
//! | what must hold of every scenario? | [`invariants`] |
//! | how does the cluster in this process work? | [`embedded`] |
//! | what are random scenarios made of? | [`fuzz`] |
//!
//! Nothing here knows the command line or kind, and nothing prints.

pub mod cluster;
pub mod embedded;
pub mod extender_proxy;
pub mod fuzz;
mod hold_point;
mod http_call;
pub mod invariants;
pub mod observe;
pub mod outcome;
pub mod run;
pub mod scenario;
pub mod scheduler_configuration;
pub mod simulated_machine;
