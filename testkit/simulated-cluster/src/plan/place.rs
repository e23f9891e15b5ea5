//! The places of a cluster's parts, and what the processes there are called. Named by events; asked by the world and by who checks plans.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a part is, or what a link leads from and to: `apiServer`, `scheduler` (kube-scheduler and the controllers), `control` (the
/// suite's programs of the control plane), `secondControl`, or a node by its place, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// The API server's host.
    ApiServer,
    /// The host of scheduler and controllers.
    Scheduler,
    /// The host of the suite's programs of the control plane.
    Control,
    /// The host of the second process of such a program, while there is one ([`What::Second`](super::What::Second)).
    SecondControl,
    /// A node.
    Node(usize),
}

impl Place {
    /// What a part here is counted as, and draws as: with the place where there is more than one of it.
    pub(crate) fn process_name(self, part: &str) -> String {
        match self {
            Place::Node(_) | Place::SecondControl => format!("{part}/{self}"),
            Place::ApiServer | Place::Scheduler | Place::Control => part.to_owned(),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::ApiServer => f.write_str("apiserver"),
            Place::Scheduler => f.write_str("scheduler"),
            Place::Control => f.write_str("control"),
            Place::SecondControl => f.write_str("control-2"),
            Place::Node(place) => f.write_str(&super::node_name(*place)),
        }
    }
}
