//! The domain rules of Neuron scheduling: which sets of devices and cores a node's instance type allows, which one a
//! pod gets, what is recorded on the pod, and who holds what. Pure: no I/O, no async, no clock. The extender, the
//! device plugin, fake-neuron and the tests all decide by these rules, so that they cannot disagree.
//!
//! A pod is placed on a node and its annotations say what it got:
//!
//! ```
//! use std::sync::Arc;
//!
//! use neuron_core::catalog::Catalog;
//! use neuron_core::occupancy::Occupancy;
//! use neuron_core::placement::place;
//! use neuron_core::pod::PodSpec;
//! use neuron_core::request::PodRequest;
//! use neuron_core::topology::{Policy, Topology};
//!
//! let instance_type = Catalog::embedded().find("trn1.32xlarge").ok_or("no such type")?;
//! let topology = Arc::new(Topology::of(instance_type, instance_type.default_lnc, Policy::Documented)?);
//! let mut occupancy = Occupancy::empty(Arc::clone(&topology));
//! occupancy.hold("0,1".parse()?);
//!
//! let spec: PodSpec = serde_json::from_str(
//!     r#"{"containers":[{"name":"main","resources":{"limits":{"aws.amazon.com/neuron":"4"}}}]}"#,
//! )?;
//! let placement = place(&PodRequest::of(&spec)?, &occupancy)?;
//! let annotations = placement.allocation("n1", &topology).annotations(false, "1767225600000000000");
//! assert_eq!(
//!     annotations["neuron-scheduler/allocation"],
//!     r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"devices":[4,5,6,7]}}}"#
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | question | decided in |
//! |---|---|
//! | which hardware does an instance type have? | [`catalog`] |
//! | what does its driver show in sysfs? | [`driver`] |
//! | is a set allowed on a node? | [`topology`] |
//! | what does a pod request? | [`request`] |
//! | what does a pod get from a ResourceClaim instead? | [`claim`] |
//! | which device models is a pod restricted to? | [`device_model`] |
//! | which set does a pod get, or why none? | [`placement`] |
//! | what is recorded on a pod, and reported of a node? | [`record`], [`report`] |
//! | does a record count, and who holds what? | [`holders`] |
//!
//! In the source, the modules about nodes lie in `nodes/`, those about pods in `pods/`.

pub mod holders;
pub mod ids;
pub mod names;
mod nodes;
pub mod placement;
mod pods;

pub use nodes::{catalog, driver, occupancy, report, topology};
pub use pods::{bounded, claim, device_model, pod, quantity, record, request};
