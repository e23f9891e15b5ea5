//! `neuron-workload`, the container that scenarios run in place of a training job. It prints as one line of JSON what its
//! container got (the environment and the device nodes in `/dev`), then runs until SIGTERM or for as long as its arguments
//! ask, with its devices open, and cores of the first one reserved if they ask for that.
//!
//! The image's `main` looks at the real files ([`container`]). The embedded cluster has no containers, so it makes the same
//! report from a container's arguments and what kubelet would give it:
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::time::Duration;
//!
//! use neuron_workload::{Report, Workload};
//!
//! let arguments = ["--for=2s".to_owned(), "--exit=3".to_owned()];
//! let workload = Workload::from_args(&arguments)?;
//! assert_eq!((workload.ends_after, workload.exit_code), (Some(Duration::from_secs(2)), 3));
//!
//! let env = BTreeMap::from([("NEURON_RT_VISIBLE_CORES".to_owned(), "2,3".to_owned())]);
//! let report = Report::of(env, ["/dev/neuron1".to_owned(), "/dev/null".to_owned()]);
//! assert_eq!(report.devices, ["/dev/neuron1"]);
//! # Ok::<(), clap::Error>(())
//! ```

mod arguments;
pub mod container;
mod ioctl;
mod report;

pub use arguments::Workload;
pub use report::{DeviceNode, DriverAnswers, Report};
