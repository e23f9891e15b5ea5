//! The Neuron scheduling suite in simulated time: the *production* extender and device plugins on fake hardware, in a simulated
//! cluster ([`simulated_cluster`]), judged by the documented rules. Called by `neuron-e2e simulate` and by `cargo test`, which
//! runs the kept plans of `plans/`.

mod binding;
mod containers;
mod coverage;
mod failure;
mod judge;
mod known;
mod machine;
mod node_report;
#[cfg(planted)]
mod planted;
mod pods;
mod seeded;
mod sizes;
mod suite;
mod texts;

pub use self::coverage::{reached, unreached};
pub use self::failure::{plan_of, run_plan, shows, smaller};
pub use self::known::known;
#[cfg(planted)]
pub use self::planted::{PLANTED, Planted};
pub use self::seeded::{Nodes, NodesError, Seeded};
pub use self::suite::Neuron;
