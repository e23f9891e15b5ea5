//! Who is told of every write, inside it: the invariants of a simulation. Owned by the store.

use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::changes::Change;
use super::stored::Stored;

/// A write, as [`ApiServer::observe`](crate::ApiServer::observe) tells of it.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a> {
    /// The object's kind, such as `Pod`. Events of both APIs are an `Event`, with the field names of core/v1.
    pub kind: &'static str,
    /// Its namespace; empty for cluster-wide kinds.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// The object before, without `apiVersion` and `kind`; none if it is new.
    pub before: Option<&'a Arc<Value>>,
    /// The object now; none if it was removed.
    pub after: Option<&'a Arc<Value>>,
    /// The resourceVersion of the write: each write has the next one.
    pub version: u64,
}

/// What is called in every write.
pub(super) type Observer = Box<dyn Fn(&Observed<'_>) + Send + Sync>;

/// All observers, in the order in which they were added.
#[derive(Default)]
pub(super) struct Observers(Vec<Observer>);

impl Observers {
    pub(super) fn add(&mut self, observer: Observer) {
        self.0.push(observer);
    }

    pub(super) fn tell(&self, change: &Change) {
        let observed = Observed {
            kind: change.collection.kind(),
            namespace: &change.key.namespace,
            name: &change.key.name,
            before: change.before.as_deref().map(Stored::object),
            after: change.after.as_deref().map(Stored::object),
            version: change.version,
        };
        self.0.iter().for_each(|observer| observer(&observed));
    }
}

impl fmt::Debug for Observers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} observers", self.0.len())
    }
}
