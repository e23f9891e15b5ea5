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

    /// Forgets what `is_over` says so of, by who was told and the pod's UID. The owners whose other pods are to be told again.
    pub(super) fn forget(&mut self, is_over: impl Fn(&Audience, &str) -> bool) -> BTreeSet<Audience> {
        let over = self.on_pod.extract_if(.., |(audience, _), uid| is_over(audience, uid));
        over.map(|((audience, _), _)| audience)
            .filter(|audience| matches!(audience, Audience::PodsOf { .. }))
            .collect()
    }
}
