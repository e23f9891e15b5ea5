//! How the cluster's own parts list and watch: as client-go's reflector does. Used by the scheduler's and the kubelets' watches.
//!
//! The first list is whatever the API server's cache has (`resourceVersion=0`), which may be older than what the part's last process
//! has seen; what is listed again is never older than what was listed before. client-go has done so for ever. Since 1.35 it first asks
//! for a stream of what is newest (`WatchListClient`), and does this where that is switched off, or where the server refuses it.

use std::fmt::Debug;

use futures::stream::{BoxStream, Stream, StreamExt as _, unfold};
use kube::runtime::watcher::{Config, Error, Event};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Resource};
use runtime::System;
use serde::de::DeserializeOwned;

use crate::watch_backoff::watch_backoff;

/// What happens to the objects that `config` selects, without end.
pub(crate) fn reflect<K>(
    system: &System,
    api: Api<K>,
    config: Config,
) -> impl Stream<Item = Result<Event<K>, Error>> + Send + use<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    // A list in pages would be of what is newest.
    let from_cache = Config { page_size: None, ..config.clone().any_semantic() };
    let events = watcher(api.clone(), from_cache).boxed();
    let reflector = Reflector { api, config, events, lists: Lists::First };
    let events = unfold(reflector, |mut reflector| async { Some((reflector.next().await?, reflector)) });
    events.backoff(watch_backoff(system))
}

struct Reflector<K> {
    api: Api<K>,
    config: Config,
    events: BoxStream<'static, Result<Event<K>, Error>>,
    lists: Lists,
}

/// Which list a reflector reads, or has read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lists {
    /// The first, which has not come yet.
    First,
    /// The first, which has come.
    Again,
    /// One that is not older.
    Newest,
}

impl<K> Reflector<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    async fn next(&mut self) -> Option<Result<Event<K>, Error>> {
        let event = self.events.next().await;
        match &event {
            Some(Ok(Event::InitDone)) if self.lists == Lists::First => self.lists = Lists::Again,
            Some(Ok(Event::Init)) if self.lists == Lists::Again => {
                self.lists = Lists::Newest;
                self.events = watcher(self.api.clone(), self.config.clone()).boxed();
                return self.events.next().await;
            }
            _ => {}
        }
        event
    }
}
