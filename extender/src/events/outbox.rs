//! Events on their way: each is said once, none above the rate, and what cannot be sent now is put off. Filled by the loop of [`super`],
//! one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use kube::Client;
use runtime::{System, reached};
use tokio::time::Instant;
use tracing::warn;

use super::explain::Explanation;
use super::pending_events::{Retries, Subject};
use super::rate::{INTERVAL, Rate};
use super::send::{Sent, send};
use super::told::Told;
use crate::index::{Audience, Cluster};

/// How often the log says that events are held back.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// What was sent and what is still to be sent.
pub(super) struct Outbox {
    system: System,
    client: Client,
    told: Told,
    rate: Rate,
    /// What is looked at again later.
    pub(super) retries: Retries,
    is_api_server_away: bool,
    /// Events of this look that are held back by the rate, each until its turn; pods of one owner have the same.
    held_back: BTreeMap<(Audience, u64), Instant>,
    /// When the log said last that events are held back.
    logged_at: Option<Instant>,
}

impl Outbox {
    /// Nothing was sent yet. What cannot be sent is tried again after `first_wait`.
    pub(super) fn new(system: System, client: Client, first_wait: Duration) -> Self {
        Self {
            system,
            client,
            told: Told::default(),
            rate: Rate::new(Instant::now()),
            retries: Retries::new(first_wait),
            is_api_server_away: false,
            held_back: BTreeMap::new(),
            logged_at: None,
        }
    }

    /// Another look at the cluster begins.
    pub(super) fn begin(&mut self) {
        self.is_api_server_away = false;
        self.held_back.clear();
    }

    /// Sends one event unless the same was said before; it is made only if it can be sent now. Whether time has passed.
    pub(super) async fn offer(
        &mut self,
        subject: Subject,
        audience: Audience,
        key: u64,
        make: impl FnOnce() -> Option<Explanation>,
    ) -> bool {
        let now = Instant::now();
        // Its turn has not come: what is due is looked at then, whatever else has the node looked at before.
        if self.retries.is_later(&subject, now) {
            return false;
        }
        if self.told.contains(&audience, key) {
            self.retries.remove(&subject);
            return false;
        }
        // A send without an answer is most likely followed by another, and each may take until its timeout.
        if self.is_api_server_away {
            reached("extender: event put off");
            self.retries.put_off(subject, now);
            return false;
        }
        if let Err(next) = self.rate.take(now) {
            reached("extender: event held back by the rate");
            let before = u32::try_from(self.held_back.len()).unwrap_or(u32::MAX);
            let turn = *self.held_back.entry((audience, key)).or_insert(next + INTERVAL * before);
            self.retries.hold_back(subject, turn);
            return false;
        }
        let Some(explanation) = make() else { return false };
        let uid = explanation.uid.clone();
        match send(&self.system, &self.client, explanation).await {
            Sent::Yes => {
                self.told.insert(audience, key, uid);
                self.retries.remove(&subject);
            }
            Sent::Refused => {
                reached("extender: event refused");
                // It would be refused at each look, and take the turn of another.
                self.told.insert(audience, key, uid);
                self.retries.remove(&subject);
            }
            Sent::NotAllowed => self.retries.failed(subject, Instant::now()),
            Sent::NotAnswered => {
                reached("extender: event not answered");
                self.is_api_server_away = true;
                self.retries.failed(subject, Instant::now());
            }
        }
        true
    }

    /// The look ends. What was said on a pod that is gone is forgotten. What was said to an owner's pods on one that is bound now is forgotten,
    /// too, and said again on one that waits: nobody looks at a running pod to learn why others wait, and events are kept for an hour.
    pub(super) fn end(&mut self, cluster: &Cluster) {
        let now = Instant::now();
        if !self.held_back.is_empty() && self.logged_at.is_none_or(|at| now >= at + LOG_INTERVAL) {
            self.logged_at = Some(now);
            warn!(
                events = self.held_back.len(),
                "events about pods are held back: more than ten a second are to be sent"
            );
        }
        // Planted: whoever waits is told so again and again.
        #[cfg(planted)]
        if runtime::is_planted("explains-without-end") {
            let all = self.told.take();
            cluster.write(|index| index.explain_again(&all));
        }
        let untold: BTreeSet<Audience> = cluster.read(|index| {
            self.retries.retain(|uid| index.pod(uid).is_some());
            self.told.forget(|audience, uid| match (index.pod(uid), audience) {
                (None, _) => true,
                (Some((_, node)), Audience::PodsOf { .. }) => node.is_some(),
                (Some(_), Audience::Pod(_)) => false,
            })
        });
        if !untold.is_empty() {
            cluster.write(|index| index.explain_again(&untold));
        }
    }

    /// How many events were sent, of pods that are still there.
    pub(super) fn told(&self) -> usize {
        self.told.len()
    }
}
