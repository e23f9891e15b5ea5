//! The kubelet device plugin for AWS Neuron devices. It discovers a node's devices, advertises them as
//! `aws.amazon.com/neuron` and `aws.amazon.com/neuroncore`, prefers the set that a pod's record names, exports exactly what
//! the ids mean, and keeps records and the node report true.
//!
//! The program `neuron-device-plugin` is [`run`] with settings from its command line. A test or another program runs it the
//! same way:
//!
//! ```no_run
//! use neuron_device_plugin::{Config, System};
//! use tokio_util::sync::CancellationToken;
//!
//! # async fn example(client: kube::Client) -> anyhow::Result<()> {
//! let config = Config { root: "/var/lib/fake-neuron".into(), ..Config::new("node-1") };
//! let shutdown = CancellationToken::new();
//! let system = System::real();
//! let plugin = system.spawn(neuron_device_plugin::run(system.clone(), config, client, shutdown.clone()));
//! // kubelet sees the devices below the root until:
//! shutdown.cancel();
//! plugin.await??;
//! # Ok(())
//! # }
//! ```
//!
//! Where things are decided: [`hardware`] what the machine has and which devices are healthy; [`kubelet`] how a resource is
//! registered and each call answered; [`allocation`] which ids are preferred, refused and exported; [`ledger`] who has what;
//! [`handover`] which processes of gone pods still have a device open;
//! [`pods`] what this node's pods ask for; [`report`] what the node report and corrected records say.
//!
//! Nothing here asks the operating system but through the [`System`] that `run` was given, and nothing depends on the order of
//! a hash map, so that a simulation sees the same run again. [`BRANCHES`] are what it should reach, [`Probe`] what it may watch.

pub mod allocation;
mod arguments;
mod branches;
pub mod config;
pub mod events;
pub mod handover;
pub mod hardware;
pub mod healthz;
pub mod kubelet;
pub mod ledger;
pub mod metrics;
mod parts;
pub mod pods;
pub mod probe;
pub mod report;
pub mod resource;
mod run;
pub mod status;

pub use allocation::cross_resource::CrossResource;
pub use allocation::injection::DeviceInjection;
pub use arguments::Arguments;
pub use branches::BRANCHES;
pub use config::{Config, HealthOptions, Numbering, UnknownHealth};
pub use handover::mode::HandoverMode;
pub use probe::{Probe, Sizes};
pub use run::run;
pub use runtime::System;
