//! The ledger against a kubelet that admits equal pods in any order, while what the plugin sees of them lags: nothing
//! that kubelet's own books have free is refused, and nothing that a pod has counts as free. No pod ends here.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::collections::BTreeSet;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource::Core;
use neuron_core::request::Role;
use neuron_device_plugin::ledger::judge::Judgement;
use neuron_device_plugin::ledger::reconcile::Real;
use neuron_device_plugin::ledger::slot::Slot;
use neuron_device_plugin::ledger::{Ledger, Proof};
use proptest::prelude::*;

/// Cores of the node.
const CORES: u8 = 12;

/// Something that happens; a number chooses among the pods that it can happen to.
#[derive(Clone, Debug)]
enum Event {
    /// The extender binds a pod; pods bound in the same second go by their UIDs, which go by `order`.
    Bind {
        order: u8,
        count: u8,
    },
    /// kubelet admits a bound pod; the news come between the plugin's advice and the Allocate.
    Admit(u8, Vec<News>),
    News(News),
    /// The plugin reads kubelet's books and corrects the records.
    Rest,
}

#[derive(Clone, Debug)]
enum News {
    /// kubelet writes the status of a pod that it has admitted.
    Written(u8),
    /// The plugin's watch shows a pod as the API server has it.
    Seen(u8),
}

#[derive(Clone, Debug)]
struct Pod {
    uid: String,
    count: u8,
    record: CoreSet,
    /// What kubelet gave it, if it did.
    has: CoreSet,
    /// Whether the API server knows that it is admitted.
    written: bool,
    /// What of this the plugin has seen; nothing while it does not know the pod.
    seen: Option<bool>,
}

#[derive(Default)]
struct World {
    pods: Vec<Pod>,
    ledger: Ledger,
}

fn news() -> impl Strategy<Value = News> {
    prop_oneof![any::<u8>().prop_map(News::Written), any::<u8>().prop_map(News::Seen)]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let bind = (any::<u8>(), 1u8..3).prop_map(|(order, count)| Event::Bind { order, count });
    let admit = (any::<u8>(), prop::collection::vec(news(), 0..4));
    let event = prop_oneof![
        5 => bind,
        6 => admit.prop_map(|(pod, news)| Event::Admit(pod, news)),
        6 => news().prop_map(Event::News),
        1 => Just(Event::Rest),
    ];
    prop::collection::vec(event, 0..60)
}

fn union(sets: impl Iterator<Item = CoreSet>) -> CoreSet {
    sets.fold(CoreSet::EMPTY, CoreSet::union)
}

impl World {
    fn carry_out(&mut self, event: &Event) {
        match event {
            Event::Bind { order, count } => self.bind(*order, *count),
            Event::Admit(number, news) => {
                if let Some(place) = self.nth(*number, |pod| pod.has.is_empty()) {
                    self.admit(place, news);
                }
            }
            Event::News(news) => self.news(news),
            Event::Rest => self.rest(),
        }
    }

    fn nth(&self, number: u8, is: impl Fn(&Pod) -> bool) -> Option<usize> {
        let among: Vec<usize> = (0..self.pods.len()).filter(|place| is(&self.pods[*place])).collect();
        among.get(usize::from(number).checked_rem(among.len())?).copied()
    }

    /// Records the first free run, if there is one.
    fn bind(&mut self, order: u8, count: u8) {
        let records = union(self.pods.iter().map(|pod| pod.record));
        let size: u32 = self.pods.iter().map(|pod| pod.record.len()).sum();
        if size != records.len() {
            // Of overlapping records one does not count, and the node takes no new pod until it does.
            return;
        }
        let taken = records.union(union(self.pods.iter().map(|pod| pod.has)));
        let mut runs =
            (0..=CORES - count).step_by(usize::from(count)).map(|first| CoreSet::run(first, count));
        let Some(record) = runs.find(|run| !run.intersects(taken)) else { return };
        let uid = format!("{order:03}-{}", self.pods.len());
        self.pods.push(Pod { uid, count, record, has: CoreSet::EMPTY, written: false, seen: None });
    }

    /// kubelet takes the plugin's advice where it can, else any ids that its books have free.
    fn admit(&mut self, place: usize, news: &[News]) {
        let count = self.pods[place].count;
        let free = CoreSet::run(0, CORES).difference(union(self.pods.iter().map(|pod| pod.has)));
        let advice = self.prefer(u32::from(count), free).filter(|set| set.is_subset(free));
        let ids = advice.unwrap_or_else(|| free.iter().take(count.into()).collect());
        news.iter().for_each(|news| self.news(news));
        self.allocate(place, ids);
    }

    fn prefer(&mut self, count: u32, free: CoreSet) -> Option<CoreSet> {
        let slots = self.current();
        let offer =
            |world: &Self, slots: &[Slot]| world.ledger.offer(slots, Core, count, free, CoreSet::EMPTY);
        if let Some(set) = offer(self, &slots) {
            return Some(set);
        }
        self.read_live();
        let slots = self.current();
        let rest = free.difference(self.ledger.held(&slots));
        let mut runs = (0..CORES).map(|first| (first..CORES).take(count as usize).collect::<CoreSet>());
        offer(self, &slots).or_else(|| runs.find(|run| run.len() == count && run.is_subset(rest)))
    }

    /// As the engine: only a sure yes needs no live read.
    fn allocate(&mut self, place: usize, ids: CoreSet) {
        for live in [false, true] {
            if live {
                self.read_live();
            }
            let slots = self.current();
            match self.ledger.judge(&slots, Core, ids, ids.len()) {
                Judgement::Allowed(slot) if slot.is_some() || live => {
                    self.ledger.allocate(Core, ids, ids.len(), slot);
                    self.pods[place].has = ids;
                    return;
                }
                Judgement::Held { holders, .. } if live => {
                    let uid = &self.pods[place].uid;
                    panic!("{ids} refused to {uid}, held by {holders:?}; {:#?}", self.pods);
                }
                _ => {}
            }
        }
    }

    fn news(&mut self, news: &News) {
        match news {
            News::Written(number) => {
                if let Some(place) = self.nth(*number, |pod| !pod.has.is_empty() && !pod.written) {
                    self.pods[place].written = true;
                }
            }
            News::Seen(number) => {
                if let Some(place) = self.nth(*number, |pod| pod.seen != Some(pod.written)) {
                    self.pods[place].seen = Some(self.pods[place].written);
                }
            }
        }
    }

    fn read_live(&mut self) {
        self.pods.iter_mut().for_each(|pod| pod.seen = Some(pod.written));
    }

    /// As the engine: the slots of what is seen; of overlapping records the one that kubelet's books confirm counts.
    fn current(&mut self) -> Vec<Slot> {
        let mut seen: Vec<&Pod> = self.pods.iter().filter(|pod| pod.seen.is_some()).collect();
        seen.sort_by(|a, b| a.uid.cmp(&b.uid));
        let proven = |pod: &Pod| {
            let entries = self.ledger.entries().iter().filter(|entry| entry.cores == pod.record);
            let mut owners = entries.filter_map(|entry| entry.owner.as_ref());
            owners.any(|owner| owner.uid == pod.uid && owner.proof == Proof::Kubelet)
        };
        let (mut taken, mut counts) = (CoreSet::EMPTY, BTreeSet::new());
        for confirmed in [true, false] {
            for pod in seen.iter().filter(|pod| proven(pod) == confirmed) {
                if !pod.record.intersects(taken) {
                    taken = taken.union(pod.record);
                    counts.insert(&pod.uid);
                }
            }
        }
        let slot = |pod: &&Pod| Slot {
            uid: pod.uid.clone(),
            pod: format!("default/{}", pod.uid),
            container: "main".to_owned(),
            role: Role::App,
            resource: Core,
            count: pod.count.into(),
            recorded: counts.contains(&pod.uid).then_some(pod.record),
            admitted: pod.seen == Some(true),
        };
        let slots: Vec<Slot> = seen.iter().map(slot).collect();
        self.ledger.release(&slots);
        self.ledger.follow_admission(&slots);
        slots
    }

    fn rest(&mut self) {
        let known = |pod: &Pod| pod.has.is_empty() || pod.seen.is_some();
        let unowned = self.ledger.entries().iter().any(|entry| entry.owner.is_none());
        if unowned || !self.pods.iter().all(known) {
            self.read_live();
        }
        let real = |pod: &Pod| Real {
            uid: Some(pod.uid.clone()),
            container: "main".to_owned(),
            resource: Core,
            cores: pod.has,
            count: pod.has.len(),
        };
        let real: Vec<Real> = self.pods.iter().filter(|pod| !pod.has.is_empty()).map(real).collect();
        let (before, slots) = (self.ledger.now(), self.current());
        self.ledger.reconcile(&slots, &real, before, true);
        self.pods.iter_mut().filter(|pod| !pod.has.is_empty()).for_each(|pod| pod.record = pod.has);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn equal_pods_that_run_on(events in events()) {
        let mut world = World::default();
        for event in &events {
            world.carry_out(event);
            let slots = world.current();
            let held = world.ledger.held(&slots);
            let has = union(world.pods.iter().map(|pod| pod.has));
            prop_assert!(has.is_subset(held), "{has} are given out, {held} are held; {:#?}", world.pods);
        }
    }
}
