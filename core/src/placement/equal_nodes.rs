//! What equal nodes answer about one pod, worked out once for all of them: most nodes of a large cluster are empty, full
//! or held alike. Asked by the extender, which looks at every node of a call.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::budget::Budget;
use super::diagnose::WhenEmpty;
use super::problem::KubeletsChoice;
use super::{Refusal, any_free_for_one, is_possible};
use crate::ids::{CoreSet, DeviceSet};
use crate::occupancy::Occupancy;
use crate::request::PodRequest;
use crate::topology::Topology;

/// Nodes of one call whose searches may be given up. What others answer is then not searched for.
const GIVEN_UP: usize = 8;

/// Whether one pod fits, for any number of nodes.
#[derive(Debug)]
pub struct EqualNodes<'r> {
    request: &'r PodRequest,
    /// Those met so far, as many as the cluster has kinds of nodes, and what an empty node of each answers.
    topologies: Vec<(Arc<Topology>, WhenEmpty)>,
    answers: FxHashMap<Equal, Result<(), Refusal>>,
    /// Searches that may be given up before no other is begun: each has taken its whole budget.
    questions_left: usize,
}

/// All of a node that decides the answer.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Equal {
    /// Index among the topologies met so far.
    pub(super) topology: usize,
    pub(super) held: CoreSet,
    pub(super) unhealthy: DeviceSet,
}

impl<'r> EqualNodes<'r> {
    /// Nothing is known yet.
    pub fn new(request: &'r PodRequest) -> Self {
        Self { request, topologies: Vec::new(), answers: FxHashMap::default(), questions_left: GIVEN_UP }
    }

    /// What the pod requests.
    pub fn request(&self) -> &'r PodRequest {
        self.request
    }

    /// What [`fits`](super::fits) answers about a node with this occupancy.
    ///
    /// # Errors
    /// The refusal of [`fits`](super::fits).
    pub fn fits(&mut self, occupancy: &Occupancy) -> Result<(), Refusal> {
        // Keeping the commonest answer would cost more than working it out.
        if any_free_for_one(self.request, occupancy) == Some(true) {
            return Ok(());
        }
        let request = self.request;
        let topology = self.index(occupancy.topology());
        let when_empty = &self.topologies[topology].1;
        // What an empty node refuses every node does, and needs no search: such a pod waits for ever, and is asked about
        // again and again.
        if !matches!(when_empty, WhenEmpty::Fits) {
            return Err(when_empty.diagnose(request, occupancy, &Budget::of_question()));
        }
        let left = &mut self.questions_left;
        let answer = || {
            let budget = if *left > 0 { Budget::of_question() } else { Budget::of(0) };
            let answer = match is_possible(request, occupancy, KubeletsChoice::Any, &budget) {
                true => Ok(()),
                false => Err(when_empty.diagnose(request, occupancy, &budget)),
            };
            *left = left.saturating_sub(usize::from(budget.is_spent()));
            answer
        };
        let equal = Equal { topology, held: occupancy.held(), unhealthy: occupancy.unhealthy() };
        self.answers.entry(equal).or_insert_with(answer).clone()
    }

    fn index(&mut self, topology: &Arc<Topology>) -> usize {
        let known = self.topologies.iter().position(|(known, _)| Arc::ptr_eq(known, topology));
        known.unwrap_or_else(|| {
            self.topologies
                .push((Arc::clone(topology), WhenEmpty::of(self.request, topology, &Budget::of_question())));
            self.topologies.len() - 1
        })
    }
}
