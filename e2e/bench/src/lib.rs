//! What the suite costs: pods per second through the real kube-scheduler, without an extender, with one that only passes
//! and binds, and with ours. `neuron-e2e bench` calls it.
//!
//! [`measure`] makes a cluster of kind without workers, whose nodes are API objects that kwok keeps alive. It starts the
//! extenders it compares as processes of the program that calls it, which therefore has a command `bench extender` that
//! takes [`ExtenderArguments`] and calls [`serve_extender`].
//!
//! ```no_run
//! # async fn bench() -> anyhow::Result<()> {
//! use kind_driver::Owner;
//! use neuron_e2e_bench::{Measurement, MeasureArguments, Setting, measure};
//!
//! let arguments = MeasureArguments { nodes: 20, pods: 100, rounds: 1, ..MeasureArguments::default() };
//! let setting = Setting { owner: Owner::new("my-bench"), node_image: None, node_image_setting: "--node-image" };
//! match measure(arguments, setting).await? {
//!     Measurement::Done(report) => println!("{}", report.text()),
//!     Measurement::Lacking(why) => println!("not measured: {why}"),
//! }
//! # Ok(())
//! # }
//! ```

mod certificate;
mod garbage;
mod https;
mod machine;
mod measure;
mod nodes;
mod pace;
mod passing;
mod pods;
mod program;
mod programs;
mod report;
mod rounds;
mod running;
mod serve;
mod variant;

pub use measure::{MeasureArguments, Measurement, Setting, measure};
pub use report::Report;
pub use serve::{Arguments as ExtenderArguments, run as serve_extender};
pub use variant::{Form, Variant};
