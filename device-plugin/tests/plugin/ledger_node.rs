//! A ledger by itself, with the pods of a node and a time that tests move. Used by the tests of the ledger and of what it prefers.

use std::time::Duration;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource::{self, Core, Device};
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_core::request::Role;
use neuron_device_plugin::ledger::answer::Asked;
use neuron_device_plugin::ledger::holders::Trust;
use neuron_device_plugin::ledger::preference::Question;
use neuron_device_plugin::ledger::slot::Slot;
use neuron_device_plugin::ledger::told::Told;
use neuron_device_plugin::ledger::{Entry, Ledger, Life, Pods};
use tokio::time::Instant;

pub(crate) fn set(ids: &str) -> CoreSet {
    ids.parse().unwrap()
}

pub(crate) fn name(resource: Resource) -> &'static str {
    match resource {
        Device => NEURON,
        Core => NEURONCORE,
    }
}

/// A slot of a pod with one core for each device, so that both names count alike.
pub(crate) fn slot(pod: &str, resource: Resource, count: u32, recorded: &str) -> Slot {
    Slot {
        uid: pod.to_owned(),
        kubelet_uid: pod.to_owned(),
        pod: format!("default/{pod}"),
        container: "main".to_owned(),
        role: Role::App,
        resource,
        count,
        recorded: (!recorded.is_empty()).then(|| set(recorded)),
        started: false,
        may_run: false,
        may_be_asked_for: true,
        run: None,
    }
}

pub(crate) fn init(pod: &str, resource: Resource, count: u32, recorded: &str) -> Slot {
    Slot { container: "init".to_owned(), role: Role::Init, ..slot(pod, resource, count, recorded) }
}

pub(crate) fn started(slot: Slot) -> Slot {
    Slot { started: true, may_run: true, ..slot }
}

pub(crate) fn entry(pod: &str, container: &str, resource: Resource, cores: &str) -> Entry {
    let (uid, container) = (pod.to_owned(), container.to_owned());
    Entry { uid, container, name: name(resource), resource, cores: set(cores) }
}

/// A ledger, the node's pods and the time.
pub(crate) struct Node {
    pub(crate) ledger: Ledger,
    pub(crate) slots: Vec<Slot>,
    pub(crate) gone: Vec<&'static str>,
    pub(crate) now: Instant,
    read_live: Option<Instant>,
    told: Option<Told>,
    /// The slots and the gone pods that the ledger followed last, and how often either changed.
    followed: (Vec<Slot>, Vec<&'static str>),
    version: u64,
}

impl Node {
    pub(crate) fn new(slots: Vec<Slot>) -> Self {
        let (ledger, now) = (Ledger::default(), Instant::now());
        let mut node = Self {
            ledger,
            slots,
            gone: Vec::new(),
            now,
            read_live: None,
            told: None,
            followed: Default::default(),
            version: 0,
        };
        node.follow();
        node
    }

    /// As `engine` does: the ledger is told whether anything can have changed.
    pub(crate) fn follow(&mut self) {
        let (are_new, are_gone) = (self.slots != self.followed.0, self.gone != self.followed.1);
        self.version += u64::from(are_new || are_gone);
        self.followed = (self.slots.clone(), self.gone.clone());
        let (slots, gone) = (&self.slots, &self.gone);
        let life = |uid: &str| match uid {
            _ if slots.iter().any(|slot| slot.kubelet_uid == uid) => Life::Lives,
            _ if gone.contains(&uid) => Life::Gone,
            _ => Life::Unseen,
        };
        let pods = Pods {
            slots: Some(slots),
            are_new: are_new || self.version == 0,
            version: self.version,
            life: &life,
            read_live: self.read_live,
            told: self.told.as_ref(),
        };
        self.ledger.follow(&pods, self.now);
    }

    pub(crate) fn after(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.follow();
    }

    /// The pods are read live, a moment later.
    pub(crate) fn read_live(&mut self) {
        self.now += Duration::from_millis(1);
        self.read_live = Some(self.now);
        self.follow();
    }

    /// kubelet tells, a moment later, that it has no pod at all.
    pub(crate) fn kubelet_has_none(&mut self) {
        self.now += Duration::from_millis(1);
        self.told = Some(Told::new(self.now, Vec::new()));
        self.follow();
    }

    pub(crate) fn written(&mut self, entries: &[Entry]) {
        self.ledger.checkpoint(entries.to_vec(), self.now, self.now);
        self.follow();
    }

    pub(crate) fn ends(&mut self, pod: &'static str) {
        self.slots.retain(|slot| slot.uid != pod);
        self.gone.push(pod);
        self.follow();
    }

    /// Answers an Allocate, or says who stands in the way.
    pub(crate) fn asked(&mut self, resource: Resource, cores: &str) -> String {
        let cores = set(cores);
        let asked = Asked { name: name(resource), resource, cores, count: cores.len() };
        let holders = self.ledger.holders(&self.slots, &asked);
        if holders.is_empty() {
            self.ledger.answer(&asked, self.now);
            return "given".to_owned();
        }
        let texts = holders.iter().map(|holder| format!("{} has {}", holder.who, holder.cores));
        texts.collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn offered(&self, count: u32, available: &str, must: &str) -> Option<CoreSet> {
        let (available, must) = (set(available), set(must));
        let question =
            Question { name: NEURON, resource: Device, count, available, must, trust: Trust::Nobody };
        let held = self.ledger.held_by_others(&self.slots, &question);
        let own = self.offer(&question, CoreSet::EMPTY);
        own.or_else(|| self.ledger.offer_of_another(&self.slots, &question, held))
    }

    pub(crate) fn offer(&self, question: &Question, unhealthy: CoreSet) -> Option<CoreSet> {
        let held = self.ledger.held_by_others(&self.slots, question);
        self.ledger.offer(&self.slots, question, held, unhealthy)
    }

    pub(crate) fn taken(&self, question: &Question) -> CoreSet {
        self.ledger.taken(&self.slots, question, self.ledger.held_by_others(&self.slots, question))
    }
}
