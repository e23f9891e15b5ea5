//! Lists one kind of object and watches it from there, without end: the suite's only list-and-watch.
//!
//! Nothing can hold it up for ever: a list, a watch's beginning and a connection that leads nowhere are given up
//! ([`timeouts`]). After an error everything is listed again, since a watch taken up where it broke does not say when it has
//! caught up; so it is after a watch that was begun and then said nothing, not even that it ends.

mod changes;
pub(crate) mod gap;
mod list;
#[cfg(test)]
mod tests;
mod timeouts;

use futures::stream::{BoxStream, StreamExt as _, unfold};
use kube::Client;
use kube::core::Resource;
use kube::runtime::watcher::Event;
use tracing::warn;

use self::changes::Changes;
use self::gap::Gap;
use self::list::{Listed, Listing};
use self::timeouts::{Backoff, WATCH_SECONDS};
use crate::branches::reached;
use crate::calls::CallError;
use crate::encoding::Encoding;
use crate::system::System;

/// Which objects to list and watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// What logs and errors call them, such as `pods`.
    pub name: String,
    /// The path at the API server, such as `/api/v1/pods`.
    pub path: String,
    /// Only objects with these fields, such as `spec.nodeName=n1`.
    pub field_selector: Option<String>,
    /// How long the API server is asked to let each watch last at most, in seconds. One that says nothing, neither an event nor a
    /// bookmark nor that it ends, is noticed five seconds later.
    pub watch_seconds: u32,
}

impl Collection {
    /// All objects of the kind, in every namespace.
    pub fn of<K: Resource<DynamicType = ()>>() -> Self {
        Self {
            name: K::plural(&()).into_owned(),
            path: K::url_path(&(), None),
            field_selector: None,
            watch_seconds: WATCH_SECONDS,
        }
    }

    /// The same with a field selector.
    pub fn only(self, field_selector: impl Into<String>) -> Self {
        Self { field_selector: Some(field_selector.into()), ..self }
    }
}

/// The watch is disconnected: until the next [`Event::InitDone`] nobody knows what has changed. It is logged already.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {collection} is disconnected, a list follows: {reason}")]
pub struct Disconnected {
    /// The collection's name.
    pub collection: String,
    /// What went wrong.
    pub reason: String,
}

/// What happens to the objects of the collection, without end.
///
/// Each list begins with [`Event::Init`] and ends with [`Event::InitDone`]: what is not in between is gone. After
/// [`Disconnected`] a list follows, after a pause that grows to five seconds.
pub fn watch<K, E>(
    system: &System,
    client: Client,
    collection: Collection,
    encoding: E,
) -> BoxStream<'static, Result<Event<K>, Disconnected>>
where
    K: Send + 'static,
    E: Encoding<K>,
{
    watch_with_gap(system, client, collection, encoding, Gap::default())
}

/// The same as [`watch`], with a gap that is open while one watch has ended and the next has not told yet what happened since.
pub fn watch_with_gap<K, E>(
    system: &System,
    client: Client,
    collection: Collection,
    encoding: E,
    gap: Gap,
) -> BoxStream<'static, Result<Event<K>, Disconnected>>
where
    K: Send + 'static,
    E: Encoding<K>,
{
    let source = Source { system: system.clone(), client, collection, encoding, gap };
    let backoff = Backoff::new(system.clone());
    let watch = Watch { source, state: State::Connecting, backoff };
    unfold(watch, |mut watch| async { Some((watch.next().await, watch)) }).boxed()
}

/// Where objects are read from, and how.
struct Source<E> {
    system: System,
    client: Client,
    collection: Collection,
    encoding: E,
    gap: Gap,
}

/// Why a list must follow.
#[derive(Debug, thiserror::Error)]
enum Reason {
    #[error(transparent)]
    Call(#[from] CallError),
    #[error("it ended as soon as it had begun")]
    EndedAtOnce,
    #[error("the API server began it and then said nothing, not even that it ends")]
    Silent,
}

struct Watch<K, E> {
    source: Source<E>,
    state: State<K>,
    backoff: Backoff,
}

enum State<K> {
    /// A list is to begin now.
    Connecting,
    Listing(Listing<K>),
    Watching(Changes),
    /// A list is to begin after a pause.
    Disconnected,
}

impl<K: 'static, E: Encoding<K>> Watch<K, E> {
    async fn next(&mut self) -> Result<Event<K>, Disconnected> {
        self.event().await.map_err(|reason| {
            self.state = State::Disconnected;
            let (collection, reason) = (self.source.collection.name.clone(), reason.to_string());
            warn!(collection, reason, "the watch is disconnected, a list follows");
            Disconnected { collection, reason }
        })
    }

    async fn event(&mut self) -> Result<Event<K>, Reason> {
        match &mut self.state {
            State::Connecting | State::Disconnected => {
                if let State::Disconnected = self.state {
                    // Planted: nothing is seen any more after the first error.
                    #[cfg(planted)]
                    if crate::is_planted("watch-not-taken-up-again") {
                        std::future::pending::<()>().await;
                    }
                    self.backoff.wait(&self.source.gap).await;
                    reached("runtime: listed again");
                }
                self.backoff.list_begins();
                self.state = State::Listing(Listing::new(&self.source));
                Ok(Event::Init)
            }
            State::Listing(listing) => match listing.next(&self.source).await? {
                Listed::Object(object) => Ok(Event::InitApply(object)),
                Listed::Done(version) => {
                    // What happens from now on is told by a watch that has not begun yet.
                    self.source.gap.open();
                    self.state = State::Watching(Changes::since(version));
                    Ok(Event::InitDone)
                }
            },
            State::Watching(changes) => changes.next(&self.source).await,
        }
    }
}
