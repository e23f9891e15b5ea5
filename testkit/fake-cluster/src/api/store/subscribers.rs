//! Whom a change is told: open watches by what they may have to tell. With a thousand of them on as many nodes a change wakes
//! the few that it concerns.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tokio::sync::Notify;

use super::changes::Change;
use crate::api::kinds::table::Collection;
use crate::api::object;

/// The objects that a watch asks for, as far as changes are told apart by it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Topic {
    pub(crate) collection: Collection,
    pub(crate) part: Part,
}

/// Which objects of a collection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    All,
    /// Those of this name, in any namespace.
    Named(String),
    /// Pods with this `spec.nodeName`.
    OnNode(String),
}

/// What a watch has not been told yet.
#[derive(Debug)]
pub(crate) enum News {
    /// These changes, oldest first. None: it knows everything up to this version.
    Changes(Vec<Arc<Change>>, u64),
    /// Some of it is no longer kept; `oldest` is the first version that is.
    FellBehind { oldest: u64 },
    /// The server became unavailable since it was opened.
    Ended,
}

/// Every open watch.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    last: u64,
    /// In the order in which they were opened, which is the order in which they wake.
    open: BTreeMap<u64, Subscriber>,
    by_topic: BTreeMap<Topic, BTreeSet<u64>>,
}

#[derive(Debug)]
struct Subscriber {
    topic: Topic,
    untold: VecDeque<Arc<Change>>,
    ended: bool,
    wake: Arc<Notify>,
}

impl Subscribers {
    /// Adds a watch that has to be told `untold` first. Gives its number, and what it waits for.
    pub(super) fn add(&mut self, topic: Topic, untold: VecDeque<Arc<Change>>) -> (u64, Arc<Notify>) {
        self.last += 1;
        let wake = Arc::new(Notify::new());
        self.by_topic.entry(topic.clone()).or_default().insert(self.last);
        self.open.insert(self.last, Subscriber { topic, untold, ended: false, wake: wake.clone() });
        (self.last, wake)
    }

    pub(super) fn remove(&mut self, number: u64) {
        let Some(Subscriber { topic, .. }) = self.open.remove(&number) else { return };
        if let Some(numbers) = self.by_topic.get_mut(&topic) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.by_topic.remove(&topic);
            }
        }
    }

    /// Tells a change to all that it concerns. What comes before version `oldest` is no longer kept for those who are slow.
    pub(super) fn tell(&mut self, change: &Arc<Change>, oldest: u64) {
        let concerned: BTreeSet<u64> =
            topics(change).iter().filter_map(|topic| self.by_topic.get(topic)).flatten().copied().collect();
        for number in concerned {
            let Some(subscriber) = self.open.get_mut(&number) else { continue };
            if subscriber.has_fallen_behind(oldest) {
                // The first of them is enough to know it by.
                subscriber.untold.truncate(1);
            } else {
                subscriber.untold.push_back(change.clone());
            }
            subscriber.wake.notify_one();
        }
    }

    /// Ends all of them.
    pub(super) fn end(&mut self) {
        for subscriber in self.open.values_mut() {
            subscriber.ended = true;
            subscriber.wake.notify_one();
        }
    }

    /// Up to `limit` changes that a watch is told now; `version` and `oldest` are the newest and the oldest that is kept.
    pub(super) fn take(&mut self, number: u64, limit: usize, version: u64, oldest: u64) -> News {
        let Some(subscriber) = self.open.get_mut(&number).filter(|subscriber| !subscriber.ended) else {
            return News::Ended;
        };
        if subscriber.has_fallen_behind(oldest) {
            return News::FellBehind { oldest };
        }
        let told = subscriber.untold.len().min(limit);
        let changes: Vec<_> = subscriber.untold.drain(..told).collect();
        let up_to = match changes.last() {
            Some(last) if !subscriber.untold.is_empty() => last.version,
            _ => version,
        };
        News::Changes(changes, up_to)
    }
}

impl Subscriber {
    fn has_fallen_behind(&self, oldest: u64) -> bool {
        self.untold.front().is_some_and(|change| change.version < oldest)
    }
}

impl Topic {
    /// Whether a watch of it may have to tell the change.
    pub(super) fn is_concerned(&self, change: &Change) -> bool {
        topics(change).contains(self)
    }
}

/// The topics that a change belongs to. An object that starts or ceases to be in one belongs to both.
fn topics(change: &Change) -> BTreeSet<Topic> {
    let mut parts = BTreeSet::from([Part::All, Part::Named(change.key.name.clone())]);
    if change.collection == Collection::Pods {
        let pods = change.before.iter().chain(&change.after);
        parts.extend(pods.map(|pod| Part::OnNode(object::text(pod, "/spec/nodeName").to_owned())));
    }
    parts.into_iter().map(|part| Topic { collection: change.collection, part }).collect()
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use serde_json::{Value, json};

    use super::*;
    use crate::api::store::{Key, Store, Subscription};
    use crate::clock::Clock;
    use crate::version::Version;

    fn on_node(node: &str) -> Value {
        json!({"spec": {"nodeName": node}})
    }

    #[test]
    fn a_change_wakes_only_the_watches_that_may_have_to_tell_it() {
        let store = Arc::new(Store::new(Clock::new(), Version::default()));
        let subscribe = |collection, part| {
            Subscription::new(&store, &mut store.lock(), Topic { collection, part }, 0).unwrap()
        };
        let watches = [
            ("pods", subscribe(Collection::Pods, Part::All)),
            ("unbound", subscribe(Collection::Pods, Part::OnNode(String::new()))),
            ("on n1", subscribe(Collection::Pods, Part::OnNode("n1".to_owned()))),
            ("on n2", subscribe(Collection::Pods, Part::OnNode("n2".to_owned()))),
            ("nodes", subscribe(Collection::Nodes, Part::All)),
            ("n1", subscribe(Collection::Nodes, Part::Named("n1".to_owned()))),
        ];
        let woken = || -> Vec<&str> {
            let woken = watches.iter().filter(|(_, watch)| watch.changed().now_or_never().is_some());
            woken.map(|(name, _)| *name).collect()
        };
        let write = |collection, name: &str, object| {
            store.lock().insert(collection, Key::new("", name), object);
        };
        write(Collection::Pods, "p", on_node(""));
        assert_eq!(woken(), ["pods", "unbound"]);
        write(Collection::Pods, "p", on_node("n1"));
        assert_eq!(woken(), ["pods", "unbound", "on n1"]);
        write(Collection::Nodes, "n2", json!({}));
        assert_eq!(woken(), ["nodes"]);
        write(Collection::Nodes, "n1", json!({}));
        assert_eq!(woken(), ["nodes", "n1"]);
        store.lock().remove(Collection::Pods, &Key::new("", "p"));
        assert_eq!(woken(), ["pods", "on n1"]);
        store.set_available(false);
        assert_eq!(woken().len(), watches.len(), "an outage ends all");
    }
}
