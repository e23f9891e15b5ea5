//! What a simulation is made of: nodes, settings, and what happens when. A seed makes a plan; a plan is a file that anybody can
//! run again, also after the code has changed, when the seed would be another run.

mod event;
mod file;
mod place;
mod settings;

use serde::{Deserialize, Serialize};

pub use self::event::{Event, FAULTS, What};
pub use self::file::PlanError;
pub use self::place::Place;
pub use self::settings::{ApiRates, Settings};

/// The form of plans that this release reads and writes.
pub const PLAN_VERSION: u32 = 2;

/// A plan, version [`PLAN_VERSION`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Plan {
    /// The form of the file.
    pub v: u32,
    /// What is drawn while the plan is carried out comes from it: which task is polled first, which request fails.
    pub seed: u64,
    /// The Kubernetes that the cluster is, such as `1.37`.
    pub kubernetes: String,
    /// How long it runs, in simulated seconds.
    pub seconds: u64,
    /// The cluster's nodes; the first is `n1`.
    pub nodes: Vec<NodePlan>,
    /// How everything is from the beginning on.
    pub settings: Settings,
    /// Parts that are killed before a poll of their tasks: the part, and the poll's number over all its processes, from 1.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kills: Vec<(String, u64)>,
    /// What happens, in order.
    pub events: Vec<Event>,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodePlan {
    /// The kind of machine, as the suite that is simulated calls it.
    pub machine: String,
}

/// Makes what happens hour by hour, so that a month need not be in memory.
pub trait EventSource: Send {
    /// What happens in the next hour, in order; none after the last.
    fn next_hour(&mut self) -> Option<Vec<Event>>;
}

/// A plan's own events, all at once.
pub struct Listed(Option<Vec<Event>>);

impl Listed {
    /// These events.
    pub fn new(events: Vec<Event>) -> Self {
        Self(Some(events))
    }
}

impl EventSource for Listed {
    fn next_hour(&mut self) -> Option<Vec<Event>> {
        self.0.take()
    }
}

/// The name of a node by its place, from 0.
pub fn node_name(place: usize) -> String {
    format!("n{}", place + 1)
}
