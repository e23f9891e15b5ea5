//! Who holds what on this node. Three sources say it, and none of them guesses: kubelet's checkpoint, as far as its pods live; the
//! records of containers that may run and that the checkpoint does not name, or what it said of them last (`said`); and this plugin's own
//! answers that the checkpoint does not name yet. Which pod an answer was for is never asked. Pure; `engine` feeds it. Who stands in the way of a
//! request is in `holders`, what to prefer for one in `preference`, what gone pods have had in `past`, what containers run with though
//! kubelet has given them something else in `runs`.

pub mod answer;
pub mod holders;
pub mod past;
pub mod preference;
mod runs;
mod said;
pub mod slot;
pub mod slot_cache;
pub mod told;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource;
use runtime::reached;
use tokio::time::Instant;

use crate::ledger::answer::Answer;
use crate::ledger::past::Past;
use crate::ledger::runs::Runs;
use crate::ledger::said::Said;
use crate::ledger::slot::Slot;
use crate::ledger::told::Told;

/// How long a static pod counts as living that no list of pods shows: it has no mirror before its admission.
const UNSEEN_LIVES: Duration = Duration::from_secs(60);

/// How long a pod counts as living that kubelet has just given something to, though the API server shows it no more: kubelet hears
/// late that a pod is gone, and asks for its containers one right after another. Shorter than a question waits, so that nobody else
/// is refused for it.
const JUST_GIVEN_LIVES: Duration = Duration::from_secs(2);

/// What the checkpoint says that one container has of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The pod's UID, as kubelet has it.
    pub uid: String,
    /// The container, ordinary init containers included.
    pub container: String,
    /// The name that it was asked under, such as `aws.amazon.com/neuron`.
    pub name: &'static str,
    /// What one id of that name stands for.
    pub resource: Resource,
    /// The cores of its ids.
    pub cores: CoreSet,
}

/// What the pods say of a UID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// The pod is there and has not ended.
    Lives,
    /// Its phase is a last one, which kubelet has written itself or follows.
    Ended,
    /// It was deleted, which kubelet may not have heard yet.
    Gone,
    /// No list has shown it.
    Unseen,
}

/// What is known of the node's pods at one moment.
pub struct Pods<'a> {
    /// What they ask for and what their records say; none until they were read once.
    pub slots: Option<&'a [Slot]>,
    /// Whether these may be other slots than at the last call.
    pub are_new: bool,
    /// Another number after each change of the pods at the API server.
    pub version: u64,
    /// What they say of a UID.
    pub life: &'a dyn Fn(&str) -> Life,
    /// When the last list began that the API server answered live.
    pub read_live: Option<Instant>,
    /// What kubelet has just told of its own pods.
    pub told: Option<&'a Told>,
}

/// The three sources.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    entries: Vec<Entry>,
    /// How often the checkpoint was taken over.
    version: u64,
    /// Places among the entries by UID.
    of_pod: BTreeMap<String, Vec<usize>>,
    answers: Vec<Answer>,
    /// The versions of the pods and of the checkpoint that were followed last, if nothing but another one of them changes what followed.
    followed: Option<(u64, u64)>,
    /// Whether the node's pods were ever read. Before, every UID of the checkpoint lives, and kubelet's word for what is free counts
    /// under its own name.
    pods_known: bool,
    /// UIDs of entries that no list has shown, and since when they stand in the checkpoint.
    unseen: BTreeMap<String, Instant>,
    /// UIDs of entries, and when the checkpoint named the last of each; none of those that the first read found.
    given: BTreeMap<String, Instant>,
    /// Whether the checkpoint was ever taken over.
    checkpoint_known: bool,
    /// UIDs of entries whose pods have ended.
    ended: BTreeSet<String>,
    /// UIDs of pods with a container that may run, and since when that is known.
    running: BTreeMap<String, Instant>,
    /// UIDs of pods that the API server shows running and that kubelet has no more.
    forgotten: BTreeSet<String>,
    /// What pods have had that others were not given since.
    past: Past,
    /// What running containers have had since they started.
    runs: Runs,
    /// What the checkpoint said last of each container.
    said_last: Said,
    /// What the checkpoint said first of each pod's name, container and resource.
    #[cfg(planted)]
    said_first: BTreeMap<(String, String, Resource), CoreSet>,
}

impl Ledger {
    /// Takes over the checkpoint, which is empty where there is none or it is of another form; its read began at `began`.
    pub fn checkpoint(&mut self, entries: Vec<Entry>, began: Instant, now: Instant) {
        self.runs.confirm(&entries, began);
        self.answers.retain(|answer| {
            let is_named = answer.is_named_by(&entries);
            if is_named {
                reached("plugin: answer written down by kubelet");
            }
            !is_named
        });
        for entry in &entries {
            self.past.note(&entry.uid, entry.cores);
            if self.checkpoint_known && !self.entries.contains(entry) {
                self.given.insert(entry.uid.clone(), now);
            }
        }
        self.of_pod.clear();
        for (place, entry) in entries.iter().enumerate() {
            self.of_pod.entry(entry.uid.clone()).or_default().push(place);
        }
        self.given.retain(|uid, _| self.of_pod.contains_key(uid));
        self.said_last.note(&entries);
        self.entries = entries;
        self.version += 1;
        self.checkpoint_known = true;
    }

    /// Whether the checkpoint was ever taken over, be it that there is none.
    pub fn knows_checkpoint(&self) -> bool {
        self.checkpoint_known
    }

    /// The checkpoint still says the same, as a look that began at `began` has shown.
    pub fn checkpoint_unchanged(&mut self, began: Instant) {
        self.runs.confirm(&self.entries, began);
    }

    /// kubelet has restarted: what it had not written down it has given to nobody.
    pub fn kubelet_restarted(&mut self) {
        if !self.answers.is_empty() {
            reached("plugin: answer forgotten by kubelet");
        }
        self.answers.clear();
    }

    /// Follows the node's pods: which UIDs of the checkpoint live, and which answers nobody can have got.
    pub fn follow(&mut self, pods: &Pods<'_>, now: Instant) {
        let versions = Some((pods.version, self.version));
        if pods.told.is_some() || pods.are_new || self.followed != versions {
            self.follow_entries(pods, now);
            self.follow_slots(pods, now);
            let is_pending = self.unseen().next().is_some() || self.just_given_until(now).is_some();
            self.followed = versions.filter(|_| pods.told.is_none() && !is_pending);
        }
        self.end_answers(pods, now);
    }

    fn follow_entries(&mut self, pods: &Pods<'_>, now: Instant) {
        self.unseen.retain(|uid, _| self.of_pod.contains_key(uid) && (pods.life)(uid) == Life::Unseen);
        self.ended.clear();
        for uid in self.of_pod.keys() {
            let given = self.given.get(uid).copied();
            let is_forgotten = pods.told.is_some_and(|told| told.has_forgotten(uid, given));
            match (pods.life)(uid) {
                Life::Lives | Life::Unseen if is_forgotten => {
                    reached("plugin: pod forgotten by kubelet");
                    self.ended.insert(uid.clone());
                }
                Life::Lives => {}
                Life::Gone | Life::Unseen if given.is_some_and(|at| is_just(at, now)) => {
                    reached("plugin: pod that is gone was just given something");
                }
                Life::Ended | Life::Gone => drop(self.ended.insert(uid.clone())),
                Life::Unseen => {
                    let since = *self.unseen.entry(uid.clone()).or_insert(now);
                    // kubelet hears of any other pod from the API server, which shows it as long as it is there.
                    let lives = if is_static(uid) { UNSEEN_LIVES } else { Duration::ZERO };
                    if pods.read_live.is_some_and(|read| read > since + lives) {
                        reached("plugin: pod of an entry never seen");
                        self.ended.insert(uid.clone());
                    }
                }
            }
        }
    }

    fn follow_slots(&mut self, pods: &Pods<'_>, now: Instant) {
        let Some(slots) = pods.slots else { return };
        self.pods_known = true;
        if pods.are_new {
            self.runs.follow(slots, now);
            self.said_last.retain(slots, |uid| self.of_pod.contains_key(uid));
        }
        self.follow_running(slots, pods, now);
        for slot in slots.iter().filter(|slot| slot.started) {
            if self.entry_of(slot).is_none() {
                self.past.note(&slot.kubelet_uid, self.last_known(slot).unwrap_or_default());
            }
        }
        #[cfg(planted)]
        for slot in slots {
            if let Some(now) = self.entry_of(slot) {
                let key = (slot.pod.clone(), slot.container.clone(), slot.resource);
                self.said_first.entry(key).or_insert(now);
            }
        }
    }

    fn end_answers(&mut self, pods: &Pods<'_>, now: Instant) {
        let Some(slots) = pods.slots else { return };
        let mut answers = std::mem::take(&mut self.answers);
        let unwritten = slots.iter().filter(|slot| self.entry_of(slot).is_none());
        answers.retain(|answer| {
            let can_be_had = is_just(answer.at, now)
                || pods.read_live.is_none_or(|read| read <= answer.at)
                || unwritten.clone().any(|slot| answer.suits(slot));
            if !can_be_had {
                reached("plugin: answer of nobody ended");
            }
            can_be_had
        });
        self.answers = answers;
    }

    /// Which pods kubelet has forgotten. A pod that began to run after kubelet was asked may only not have been there yet.
    fn follow_running(&mut self, slots: &[Slot], pods: &Pods<'_>, now: Instant) {
        if pods.are_new {
            let mut before = std::mem::take(&mut self.running);
            for slot in slots.iter().filter(|slot| slot.may_run) {
                let since = before.remove(&slot.kubelet_uid).unwrap_or(now);
                self.running.entry(slot.kubelet_uid.clone()).or_insert(since);
            }
        }
        let is_forgotten = |told: &Told, uid: &str, since: Instant| told.has_forgotten(uid, Some(since));
        self.forgotten = pods.told.map_or_else(BTreeSet::new, |told| {
            let forgotten = self.running.iter().filter(|(uid, since)| is_forgotten(told, uid, **since));
            forgotten.map(|(uid, _)| uid.clone()).collect()
        });
    }

    /// Whether a container may run that the checkpoint does not name, of a pod that kubelet has: [`Ledger::last_known`] says what it holds.
    pub(crate) fn holds_unnamed(&self, slot: &Slot) -> bool {
        slot.may_run && self.entry_of(slot).is_none() && !self.forgotten.contains(&slot.kubelet_uid)
    }

    /// The entries of pods that live.
    pub fn living(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| !self.ended.contains(&entry.uid))
    }

    /// The answers that the checkpoint does not name yet, oldest first.
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// Another number after each checkpoint that was taken over: what followed from the entries may be different now.
    pub fn checkpoint_version(&self) -> u64 {
        self.version
    }

    /// Number of entries, those of ended pods included.
    pub fn entry_count(&self) -> usize {
        self.entries.len()
    }

    /// Whether a live list of the pods would tell more: of UIDs that were never seen, and of old answers.
    pub fn needs_live_pods(&self, now: Instant) -> bool {
        self.unseen().any(|(uid, since)| is_old(since, now) || !is_static(uid))
            || self.answers.iter().any(|answer| is_old(answer.at, now))
    }

    /// When a live list of the pods would tell more though nothing changes until then; none where it never would. What such a list
    /// leaves open is asked again a while later.
    pub fn needs_live_pods_at(&self, now: Instant) -> Option<Instant> {
        let answers = self.answers.iter().map(|answer| answer.at);
        // Only a list that begins after the time is over tells.
        let after = |since: Instant| since + UNSEEN_LIVES + Duration::from_millis(1);
        let next = answers.chain(self.unseen().map(|(_, since)| since)).map(after).min()?;
        Some(if next > now { next } else { now + UNSEEN_LIVES })
    }

    /// The UIDs of entries that no list has shown and that count as living, and since when they stand in the checkpoint.
    fn unseen(&self) -> impl Iterator<Item = (&String, Instant)> {
        self.unseen.iter().filter(|(uid, _)| !self.ended.contains(*uid)).map(|(uid, since)| (uid, *since))
    }

    /// When the checkpoint named something last that an entry still says; none if all of it was there from the first.
    pub fn last_given(&self) -> Option<Instant> {
        self.given.values().max().copied()
    }

    /// When the next pod no longer counts as living just because it was given something; none if there is no such pod.
    pub fn just_given_until(&self, now: Instant) -> Option<Instant> {
        self.given.values().map(|at| *at + JUST_GIVEN_LIVES).filter(|until| *until > now).min()
    }

    /// The cores that the checkpoint gives a slot; none if it does not name it.
    pub fn entry_of(&self, slot: &Slot) -> Option<CoreSet> {
        let of_pod = self.of_pod.get(&slot.kubelet_uid).into_iter().flatten();
        let of_pod = of_pod.filter_map(|place| self.entries.get(*place));
        let own = of_pod.filter(|entry| entry.container == slot.container && entry.resource == slot.resource);
        own.map(|entry| entry.cores).reduce(CoreSet::union)
    }

    /// The cores that a slot has, as far as anybody says: by the checkpoint, or by what that said last, or the record, of a container that
    /// may run and that kubelet does not name any more.
    pub fn cores_of(&self, slot: &Slot) -> Option<CoreSet> {
        self.entry_of(slot).or_else(|| self.last_known(slot).filter(|_| slot.may_run))
    }
}

#[cfg(planted)]
impl Ledger {
    /// What the checkpoint said first of a pod of this name.
    pub(crate) fn said_first(&self, slot: &Slot) -> Option<CoreSet> {
        let now = self.entry_of(slot)?;
        let first = self.said_first.get(&(slot.pod.clone(), slot.container.clone(), slot.resource));
        first.copied().filter(|first| first.len() == now.len()).or(Some(now))
    }
}

/// Whether something was given so lately that its pod counts as living.
fn is_just(given: Instant, now: Instant) -> bool {
    now < given + JUST_GIVEN_LIVES
}

/// Whether what was so since then has been so for longer than what no list shows counts as living.
fn is_old(since: Instant, now: Instant) -> bool {
    now > since + UNSEEN_LIVES
}

/// Whether kubelet made the UID from a static pod's manifest: a hash, and not of the form that the API server's have.
pub(crate) fn is_static(uid: &str) -> bool {
    uid.len() == 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit())
}
