//! The ledger against a kubelet whose checkpoint, statuses and pods lag: what it gives out is never shared, and what is refused is
//! held. Each core is a device of its own, so that both names mean the same ids.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::time::Duration;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource::{self, Core, Device};
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_core::request::Role;
use neuron_device_plugin::ledger::answer::Asked;
use neuron_device_plugin::ledger::holders::Trust;
use neuron_device_plugin::ledger::preference::Question;
use neuron_device_plugin::ledger::slot::Slot;
use neuron_device_plugin::ledger::{Entry, Ledger, Life, Pods};
use proptest::prelude::*;
use tokio::time::Instant;

/// Cores of the node.
const CORES: u8 = 10;

/// Something that happens; a number chooses among the pods that it can happen to.
#[derive(Clone, Debug)]
enum Event {
    /// A pod is bound, with a record or without.
    Bind {
        resource: Resource,
        count: u8,
        has_record: bool,
    },
    /// kubelet admits a bound pod. Its write is overwritten by an older one, if `late`.
    Admit {
        pod: u8,
        late: bool,
    },
    /// kubelet admits a pod whose other resource is then refused: the pod fails, and its ids stay in kubelet's memory.
    AdmitHalf(u8),
    /// The containers of a pod have ended, which kubelet knows.
    End(u8),
    /// The API server hears what kubelet knows of a pod.
    Tell(u8),
    /// The plugin's watch shows a pod as the API server has it.
    See(u8),
    /// kubelet writes its checkpoint, as with every list of a plugin.
    Write,
    RestartKubelet,
    RestartPlugin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Bound,
    Runs,
    Ended,
}

#[derive(Clone, Debug)]
struct Pod {
    uid: String,
    resource: Resource,
    count: u8,
    record: Option<CoreSet>,
    has: CoreSet,
    state: State,
    told: State,
    seen: Option<State>,
}

struct World {
    pods: Vec<Pod>,
    /// What kubelet's memory says, and its file.
    memory: Vec<Entry>,
    file: Vec<Entry>,
    ledger: Ledger,
    now: Instant,
    read_live: Option<Instant>,
    /// The slots and what was seen of every pod when the ledger followed last, and how often either has changed.
    followed: (Vec<Slot>, Vec<Option<State>>),
    version: u64,
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let resource = prop_oneof![Just(Core), Just(Device)];
    let bind = (resource, 1u8..4, any::<bool>()).prop_map(|(resource, count, has_record)| Event::Bind {
        resource,
        count,
        has_record,
    });
    let event = prop_oneof![
        5 => bind,
        6 => (any::<u8>(), prop::bool::weighted(0.1)).prop_map(|(pod, late)| Event::Admit { pod, late }),
        1 => any::<u8>().prop_map(Event::AdmitHalf),
        3 => any::<u8>().prop_map(Event::End),
        4 => any::<u8>().prop_map(Event::Tell),
        4 => any::<u8>().prop_map(Event::See),
        2 => Just(Event::Write),
        1 => Just(Event::RestartKubelet),
        1 => Just(Event::RestartPlugin),
    ];
    prop::collection::vec(event, 0..80)
}

fn name(resource: Resource) -> &'static str {
    if resource == Core { NEURONCORE } else { NEURON }
}

fn union(sets: impl Iterator<Item = CoreSet>) -> CoreSet {
    sets.fold(CoreSet::EMPTY, CoreSet::union)
}

impl World {
    fn new() -> Self {
        let (now, ledger) = (Instant::now(), Ledger::default());
        Self {
            pods: Vec::new(),
            memory: Vec::new(),
            file: Vec::new(),
            ledger,
            now,
            read_live: None,
            followed: Default::default(),
            version: 0,
        }
    }

    fn carry_out(&mut self, event: &Event) {
        self.now += Duration::from_secs(1);
        match *event {
            Event::Bind { resource, count, has_record } => self.bind(resource, count, has_record),
            Event::Admit { pod, late } => self.admit(pod, late, true),
            Event::AdmitHalf(pod) => self.admit(pod, false, false),
            Event::End(pod) => {
                self.change(pod, |pod| pod.state == State::Runs, |pod| pod.state = State::Ended)
            }
            Event::Tell(pod) => self.change(pod, |pod| pod.told != pod.state, |pod| pod.told = pod.state),
            Event::See(pod) => {
                self.change(pod, |pod| pod.seen != Some(pod.told), |pod| pod.seen = Some(pod.told))
            }
            Event::Write => self.file = self.memory.clone(),
            // Where an older write has overwritten what runs, and kubelet dies before the next one, nobody knows it any more.
            Event::RestartKubelet if !self.is_written() => {}
            Event::RestartKubelet => {
                self.memory = self.file.clone();
                self.ledger.kubelet_restarted();
            }
            Event::RestartPlugin => {
                // kubelet writes with a plugin's first list.
                self.file = self.memory.clone();
                self.ledger = Ledger::default();
                (self.followed, self.version) = Default::default();
                self.read_live = None;
                self.pods.iter_mut().for_each(|pod| pod.seen = Some(pod.told));
                self.read_live();
            }
        }
    }

    /// Whether the file names all that runs.
    fn is_written(&self) -> bool {
        let mut running = self.pods.iter().filter(|pod| pod.state == State::Runs);
        running.all(|pod| self.file.iter().any(|entry| entry.uid == pod.uid))
    }

    fn nth(&self, number: u8, is: impl Fn(&Pod) -> bool) -> Option<usize> {
        let among: Vec<usize> = (0..self.pods.len()).filter(|place| is(&self.pods[*place])).collect();
        among.get(usize::from(number).checked_rem(among.len())?).copied()
    }

    fn change(&mut self, number: u8, is: impl Fn(&Pod) -> bool, change: impl Fn(&mut Pod)) {
        if let Some(place) = self.nth(number, is) {
            change(&mut self.pods[place]);
        }
    }

    /// An extender records the first free run by what the API server knows.
    fn bind(&mut self, resource: Resource, count: u8, has_record: bool) {
        let known = self.pods.iter().filter(|pod| pod.told != State::Ended);
        let taken = union(known.map(|pod| pod.has.union(pod.record.unwrap_or_default())));
        let mut runs = (0..=CORES - count).map(|first| CoreSet::run(first, count));
        let Some(run) = runs.find(|run| !run.intersects(taken)) else { return };
        let (uid, record) = (format!("{}-u", self.pods.len()), has_record.then_some(run));
        let (state, has) = (State::Bound, CoreSet::EMPTY);
        self.pods.push(Pod { uid, resource, count, record, has, state, told: state, seen: None });
    }

    /// kubelet takes the plugin's advice where it can, else any ids that it takes for free.
    fn admit(&mut self, number: u8, late: bool, fits: bool) {
        let Some(place) = self.nth(number, |pod| pod.state == State::Bound) else { return };
        let ended =
            |entry: &Entry| self.pods.iter().any(|pod| pod.uid == entry.uid && pod.state == State::Ended);
        let older = self.file.clone();
        let mut memory = std::mem::take(&mut self.memory);
        memory.retain(|entry| !ended(entry));
        self.memory = memory;
        let Pod { uid, resource, count, .. } = self.pods[place].clone();
        let used =
            union(self.memory.iter().filter(|entry| entry.resource == resource).map(|entry| entry.cores));
        let available = CoreSet::run(0, CORES).difference(used);
        if available.len() < count.into() {
            return;
        }
        let (name, count, must) = (name(resource), u32::from(count), CoreSet::EMPTY);
        let question = Question { name, resource, count, available, must, trust: Trust::Nobody };
        let slots = self.current();
        let held = self.ledger.held_by_others(&slots, &question);
        let own = self.ledger.offer(&slots, &question, held, CoreSet::EMPTY);
        let advice = own.or_else(|| self.ledger.offer_of_another(&slots, &question, held));
        let cores = advice.unwrap_or_else(|| available.iter().take(count as usize).collect());
        let asked = Asked { name, resource, cores, count };
        if !self.is_given(&asked) {
            // kubelet's rejection; the API server hears of it later.
            self.pods[place].state = State::Ended;
            return;
        }
        let others = self.pods.iter().filter(|pod| pod.state == State::Runs);
        let shared = union(others.map(|pod| pod.has)).intersection(cores);
        assert!(shared.is_empty(), "{shared} of {cores} are given to {uid} and run: {:#?}", self.pods);
        self.memory.push(Entry { uid, container: "main".to_owned(), name, resource, cores });
        if fits {
            (self.pods[place].has, self.pods[place].state) = (cores, State::Runs);
            self.file = if late { older } else { self.memory.clone() };
        } else {
            self.pods[place].state = State::Ended;
        }
    }

    /// As the engine: what is held by what is known is looked at again with a live list. kubelet's statuses arrive meanwhile.
    fn is_given(&mut self, asked: &Asked) -> bool {
        for live in [false, true] {
            if live {
                self.pods.iter_mut().for_each(|pod| pod.told = pod.state);
                self.read_live();
            }
            self.ledger.checkpoint(self.file.clone(), self.now, self.now);
            let slots = self.current();
            if self.ledger.holders(&slots, asked).is_empty() {
                self.ledger.answer(asked, self.now);
                return true;
            }
        }
        let slots = self.current();
        let holders = self.ledger.holders(&slots, asked);
        let runs = self.pods.iter().filter(|pod| pod.state == State::Runs);
        let held = union(runs.map(|pod| pod.has)).intersects(asked.cores);
        // Who has an answer that is not written down nobody can tell while an equal pod waits.
        let is_open = !self.ledger.answers().is_empty();
        assert!(held || is_open, "{asked:?} is refused for {holders:?}: {:#?}", self.pods);
        false
    }

    /// The pods are read live, as late as a question waits for a pod that was just given something.
    fn read_live(&mut self) {
        self.now += Duration::from_secs(2);
        self.pods.iter_mut().for_each(|pod| pod.seen = Some(pod.told));
        self.read_live = Some(self.now);
    }

    /// The slots of what is seen, which the ledger has followed.
    fn current(&mut self) -> Vec<Slot> {
        let live = self.pods.iter().filter(|pod| pod.seen.is_some_and(|seen| seen != State::Ended));
        let slot = |pod: &Pod| Slot {
            uid: pod.uid.clone(),
            kubelet_uid: pod.uid.clone(),
            pod: format!("default/{}", pod.uid),
            container: "main".to_owned(),
            role: Role::App,
            resource: pod.resource,
            count: pod.count.into(),
            recorded: pod.record,
            started: pod.seen == Some(State::Runs),
            may_run: pod.seen == Some(State::Runs),
            may_be_asked_for: true,
            run: (pod.seen == Some(State::Runs)).then(|| pod.uid.clone()),
        };
        let slots: Vec<Slot> = live.map(slot).collect();
        let pods = &self.pods;
        let life = |uid: &str| match pods.iter().find(|pod| pod.uid == uid).and_then(|pod| pod.seen) {
            Some(State::Ended) => Life::Ended,
            Some(_) => Life::Lives,
            None => Life::Unseen,
        };
        let seen = pods.iter().map(|pod| pod.seen).collect();
        let (are_new, is_other) = (slots != self.followed.0, seen != self.followed.1);
        self.version += u64::from(are_new || is_other);
        self.followed = (slots.clone(), seen);
        let now = Pods {
            slots: Some(&slots),
            are_new: are_new || self.version == 0,
            version: self.version,
            life: &life,
            read_live: self.read_live,
            told: None,
        };
        self.ledger.follow(&now, self.now);
        slots
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_shared_and_what_is_refused_is_held(events in events()) {
        let mut world = World::new();
        for event in &events {
            world.carry_out(event);
        }
    }
}
