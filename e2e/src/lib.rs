//! The command `neuron-e2e`: runs the scenarios of `e2e/scenarios/` on the embedded cluster and on kind, and shows what came of
//! them. What a scenario is and what must hold of it is [`neuron_e2e_engine`]'s.
//!
//! ```sh
//! cargo run -p neuron-e2e -- run nine-cores
//! ```
//!
//! Rows of scenarios are shown by [`report`], whoever ran them:
//!
//! ```
//! use neuron_e2e::report::{Row, tables};
//! use neuron_e2e_engine::embedded::{self, Options};
//! use neuron_e2e_engine::scenario::{CatalogSource, library};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> anyhow::Result<()> {
//! let scenarios = library::all(&CatalogSource::default())?;
//! let scenario = scenarios.iter().find(|scenario| scenario.name == "nine-cores").expect("it is in the program");
//! let row = Row::new(scenario, embedded::run(scenario, Options::default()).await, 0.0);
//! assert_eq!(tables::summary(&[row]), "1 passed, 0 failed");
//! # Ok(()) }
//! ```

pub mod command;
pub mod conformance;
pub mod kind;
mod kind_arguments;
pub mod playground;
pub mod report;
pub mod verify;
pub mod view;
