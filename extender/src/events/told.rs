//! What was said to whom, so that it is said once: a short key of each text, not the text. Kept by [`super::outbox`].

use std::collections::{BTreeMap, BTreeSet};

use crate::index::Audience;

/// The UID of the pod that an event was sent on, by who is told so and what it said.
#[derive(Debug, Default)]
pub(super) struct Told {
    on_pod: BTreeMap<(Audience, u64), String>,
}

impl Told {
    /// Whether it was said.
    pub(super) fn contains(&self, audience: &Audience, key: u64) -> bool {
        self.on_pod.contains_key(&(audience.clone(), key))
    }

    /// It was said by an event on this pod.
    pub(super) fn insert(&mut self, audience: Audience, key: u64, uid: String) {
        self.on_pod.insert((audience, key), uid);
    }

    /// How much is remembered.
    pub(super) fn len(&self) -> usize {
        self.on_pod.len()
    }

    /// Everybody who was told something, and forgets it.
    #[cfg(planted)]
    pub(super) fn take(&mut self) -> BTreeSet<Audience> {
        std::mem::take(&mut self.on_pod).into_keys().map(|(audience, _)| audience).collect()
    }

    /// Forgets what was said on pods that are gone. The owners whose other pods can no longer read it.
    pub(super) fn forget_gone(&mut self, exists: impl Fn(&str) -> bool) -> BTreeSet<Audience> {
        let gone = self.on_pod.extract_if(.., |_, uid| !exists(uid));
        gone.map(|((audience, _), _)| audience)
            .filter(|audience| matches!(audience, Audience::PodsOf { .. }))
            .collect()
    }
}
