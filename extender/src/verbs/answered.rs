//! What was found out about requests, kept from call to call: pods of one owner request the same, and from one call to the next only a
//! node or two have changed. Used by filter and prioritize.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use neuron_core::placement::{EqualNodes, MAX_CONTAINERS, Ranks};
use neuron_core::request::PodRequest;

/// Most requests that are remembered.
const REQUESTS: usize = 64;

/// Most answers that are remembered of all of them, of some 200 bytes: 10 MB.
const ANSWERS: usize = 50_000;

/// What is found out about nodes for one request.
pub(crate) trait OfRequest {
    /// Nothing is known yet.
    fn new(request: &PodRequest) -> Self;
    /// The request.
    fn request(&self) -> &PodRequest;
    /// Whether what is known holds for this request.
    fn serves(&self, request: &PodRequest) -> bool;
    /// Another call begins.
    fn renew(&mut self);
    /// How much is known.
    fn kept(&self) -> usize;
}

/// What is known of the requests that were asked about last, the latest first.
#[derive(Debug)]
pub(crate) struct Answered<T> {
    requests: Mutex<VecDeque<T>>,
}

impl<T> Default for Answered<T> {
    fn default() -> Self {
        Self { requests: Mutex::default() }
    }
}

impl<T: OfRequest> Answered<T> {
    /// What is known of the request, for one call: another one that comes before it is kept again begins with nothing.
    pub(super) fn take(&self, request: &PodRequest) -> T {
        let mut requests = self.lock();
        let known = requests.iter().position(|known| known.serves(request));
        match known.and_then(|known| requests.remove(known)) {
            Some(mut known) => {
                known.renew();
                known
            }
            None => T::new(request),
        }
    }

    /// Remembers what a call has found out, and forgets the requests that were asked about longest ago where it is too much.
    pub(super) fn keep(&self, found_out: T) {
        let mut requests = self.lock();
        requests.retain(|known| !known.serves(found_out.request()));
        // One that is placed nowhere takes no search, and may have any number of names.
        if found_out.request().containers.len() > MAX_CONTAINERS {
            return;
        }
        requests.push_front(found_out);
        let mut answers = 0;
        requests.retain(|known| {
            answers += known.kept();
            answers <= ANSWERS
        });
        requests.truncate(REQUESTS);
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OfRequest for EqualNodes {
    fn new(request: &PodRequest) -> Self {
        Self::new(request)
    }

    fn request(&self) -> &PodRequest {
        self.request()
    }

    /// Refusals name containers.
    fn serves(&self, request: &PodRequest) -> bool {
        self.request() == request
    }

    fn renew(&mut self) {
        self.renew();
    }

    fn kept(&self) -> usize {
        self.kept()
    }
}

impl OfRequest for Ranks {
    fn new(request: &PodRequest) -> Self {
        Self::new(request)
    }

    fn request(&self) -> &PodRequest {
        self.request()
    }

    fn serves(&self, request: &PodRequest) -> bool {
        self.request().is_alike(request)
    }

    fn renew(&mut self) {
        self.renew();
    }

    fn kept(&self) -> usize {
        self.kept()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuron_core::catalog::Catalog;
    use neuron_core::ids::CoreSet;
    use neuron_core::occupancy::Occupancy;
    use neuron_core::request::{ContainerRequest, Role};
    use neuron_core::topology::{Policy, Topology};

    use super::*;

    fn request(cores: u32) -> PodRequest {
        let container =
            |name: &str| ContainerRequest { name: name.into(), role: Role::App, devices: 0, cores };
        PodRequest { containers: vec![container("one"), container("other")] }
    }

    fn node(held: u128) -> Occupancy {
        let model = Catalog::embedded().find("trn2.48xlarge").unwrap();
        let topology = Arc::new(Topology::of(model, 2, Policy::Documented).unwrap());
        let mut node = Occupancy::empty(topology);
        node.hold(CoreSet::from_bits(held));
        node
    }

    #[test]
    fn what_was_searched_for_one_call_is_not_searched_for_the_next() {
        let (answered, node) = (Answered::<EqualNodes>::default(), node(0b10010));
        let mut first = answered.take(&request(3));
        assert_eq!(first.fits(&node), Ok(()));
        assert!(first.cost().moves > 0);
        answered.keep(first);
        // Another request has answers of its own.
        assert_eq!(answered.take(&request(2)).kept(), 0);
        let mut second = answered.take(&request(3));
        assert_eq!((second.fits(&node), second.cost().moves), (Ok(()), 0));
    }

    #[test]
    fn pods_that_differ_only_in_their_containers_names_share_ranks() {
        let named = |name: &str, role, devices, cores| PodRequest {
            containers: vec![ContainerRequest { name: name.into(), role, devices, cores }],
        };
        let (one, node) = (named("one", Role::App, 0, 3), node(0b10010));
        let (ranked, answered) = (Answered::<Ranks>::default(), Answered::<EqualNodes>::default());
        let (mut ranks, mut answers) = (ranked.take(&one), answered.take(&one));
        assert!(ranks.rank(&node).is_some() && answers.fits(&node).is_ok());
        ranked.keep(ranks);
        answered.keep(answers);
        let others =
            [named("one", Role::App, 0, 2), named("one", Role::App, 3, 0), named("one", Role::Sidecar, 0, 3)];
        for other in others.iter().chain([&request(3)]) {
            assert_eq!(ranked.take(other).kept(), 0, "{other:?}");
        }
        let another = named("another", Role::App, 0, 3);
        assert!(ranked.take(&another).kept() > 0);
        // Refusals name containers.
        assert_eq!(answered.take(&another).kept(), 0);
        assert!(answered.take(&one).kept() > 0);
    }

    #[test]
    fn what_is_remembered_is_bounded_by_requests_and_by_answers() {
        let answered = Answered::<EqualNodes>::default();
        for cores in 1..200 {
            answered.keep(answered.take(&request(cores)));
        }
        assert_eq!(answered.lock().len(), REQUESTS);
        assert_eq!(answered.lock()[0].request(), &request(199), "the latest stays");
        let many = PodRequest { containers: vec![request(1).containers[0].clone(); MAX_CONTAINERS + 1] };
        answered.keep(answered.take(&many));
        assert_eq!(answered.lock()[0].request(), &request(199), "what is never placed is not remembered");

        let topology = Arc::clone(node(0).topology());
        let mut many = answered.take(&request(1));
        for held in 0..=ANSWERS as u128 {
            let mut node = Occupancy::empty(Arc::clone(&topology));
            node.hold(CoreSet::from_bits(held << 1));
            let _ = many.fits(&node);
        }
        answered.keep(many);
        assert!(answered.lock().is_empty(), "more than may be kept");
    }
}
