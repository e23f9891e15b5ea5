//! The Neuron scheduling suite in simulated time: the *production* extender and device plugins on fake hardware, in a simulated
//! cluster ([`simulated_cluster`]), judged by the documented rules. Called by `neuron-e2e simulate` and by `cargo test`, which
//! runs the kept plans of `plans/`.

mod admission;
mod binding;
mod containers;
mod coverage;
mod device_models;
#[cfg(test)]
mod every_refusal;
mod failure;
mod faults;
mod hardware;
mod judge;
mod known;
mod machine;
mod naive;
mod node_report;
mod nodes;
mod openings;
mod own_refusals;
#[cfg(planted)]
mod planted;
mod pods;
mod reasons;
mod records;
mod settings;
mod sizes;
mod suite;
#[cfg(test)]
mod test_truth;
mod texts;

pub use self::coverage::{reached, reached_after_all, too_seldom, unreached};
pub use self::failure::{plan_of, run_plan, shows, smaller};
pub use self::known::known;
pub use self::nodes::{Nodes, NodesError};
#[cfg(planted)]
pub use self::planted::{PLANTED, Planted};
pub use self::suite::Neuron;

/// A simulation makes and drops JSON all the time: a third of its instructions were those of glibc's allocator. It stands in a crate that
/// the profile `simulation` optimises, since each allocation calls it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
