//! Takes the Lease when it is free, renews it, and gives it back at the end. Started by [`crate::serve`].
//!
//! Another one's Lease is over when it has stood unchanged for its whole duration by this machine's clock, whatever times stand in it:
//! clocks differ. It was written before it was read, so its holder has stopped by then, whose own time began before the write. One that
//! somebody has deleted or emptied is over as long after that was seen: its holder may have renewed it right before. A duration that is
//! shorter than this replica's own does not count, for the same reason. Only one that was given back is taken at once.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Client, ResourceExt};
use runtime::{System, reached};
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::lease::{LeaseAtServer, LeaseError, duration, holder, is_given_back};
use super::{LeaderElection, Leadership};

/// One replica's part in the election.
pub(crate) struct Election {
    settings: LeaderElection,
    identity: String,
    lease: LeaseAtServer,
    leadership: Arc<Leadership>,
    /// Whether this replica hears what happens: who does not, can place nothing, and another one may.
    hears: Box<dyn Fn() -> bool + Send + Sync>,
    /// Whether the log says that it does not.
    is_deaf: bool,
    /// The Lease as it was seen last; none where there has never been one.
    known: Option<Known>,
    /// Why the last call failed, so that it is logged once.
    failed: Option<String>,
}

#[derive(Debug)]
struct Known {
    lease: Lease,
    /// When this version of it, or that it is gone, was seen first.
    since: Instant,
    /// Whether it has been deleted since.
    is_gone: bool,
}

impl Election {
    /// One in the election. Its identity is another one after each start: what the process before has begun must be over, too.
    pub(crate) fn new(
        system: &System,
        client: Client,
        settings: LeaderElection,
        leadership: Arc<Leadership>,
        hears: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        let identity = format!("{}_{:016x}", settings.pod, system.random());
        let lease = LeaseAtServer::new(system.clone(), client, &settings, identity.clone());
        Self {
            settings,
            identity,
            lease,
            leadership,
            hears: Box::new(hears),
            is_deaf: false,
            known: None,
            failed: None,
        }
    }

    /// Stands for election until the future is dropped.
    pub(crate) async fn run(&mut self) {
        loop {
            let pause = self.turn().await;
            sleep(pause).await;
        }
    }

    /// Ends the tenure: no Binding is sent any more, and the Lease is given back if it is held.
    pub(crate) async fn step_down(mut self) {
        let led = self.leadership.leads();
        self.leadership.stand_by(None);
        let Some(known) = self.known.take().filter(|known| led && self.is_ours(&known.lease)) else { return };
        let mut given_back = self.lease.give_back(&known.lease).await;
        // A renewal was carried out whose answer was lost, or which was cut off just now.
        if matches!(given_back, Err(LeaseError::Changed))
            && let Ok(Some(lease)) = self.lease.read().await
            && self.is_ours(&lease)
        {
            given_back = self.lease.give_back(&lease).await;
        }
        match given_back {
            Ok(_) => {
                reached("extender: lease given back");
                info!(lease = self.settings.lease, "the Lease is given back");
            }
            Err(error) => {
                reached("extender: lease not given back");
                warn!(lease = self.settings.lease, reason = error.to_string(), "the Lease is not given back");
            }
        }
    }

    /// One look at the Lease or one renewal, unless this replica is deaf. How long to wait until the next.
    pub(super) async fn turn(&mut self) -> Duration {
        if !(self.hears)() {
            if self.leadership.leads() && !std::mem::replace(&mut self.is_deaf, true) {
                reached("extender: lease not renewed, a watch is silent");
                warn!(lease = self.settings.lease, "a watch is silent: the Lease is not renewed");
            }
            return self.settings.period();
        }
        self.is_deaf = false;
        // Its holder knows what it has written, and another one's write shows as a conflict.
        let is_held = self.known.as_ref().is_some_and(|known| self.is_ours(&known.lease));
        let mut result = match is_held {
            true => self.hold().await,
            false => self.look().await,
        };
        if is_held && matches!(result, Err(LeaseError::Changed)) {
            // By a renewal whose answer was lost, by another leader, or by people: no pod is placed until it is known.
            reached("extender: lease changed while held");
            self.leadership.mark_in_doubt();
            result = self.look().await;
        }
        match result {
            Ok(()) => self.failed = None,
            Err(LeaseError::Changed) => return self.settings.period() / 4,
            Err(error) => self.log(&error),
        }
        self.settings.period()
    }

    /// Looks at the Lease, and takes it if it is over.
    async fn look(&mut self) -> Result<(), LeaseError> {
        let found = self.lease.read().await?;
        let now = Instant::now();
        let before = self.known.take();
        // Nobody else has led since, as time tells that this one still leads.
        let was_ours =
            self.leadership.leads() && before.as_ref().is_some_and(|known| self.is_ours(&known.lease));
        self.known = match (found, before) {
            (Some(lease), before) => {
                let is_same = |known: &Known| known.lease.resource_version() == lease.resource_version();
                let since = before.filter(is_same).map_or(now, |known| known.since);
                Some(Known { lease, since, is_gone: false })
            }
            (None, Some(known)) if !known.is_gone => {
                reached("extender: lease gone");
                warn!(lease = self.settings.lease, "somebody has deleted the Lease");
                let lease =
                    if was_ours || !self.is_ours(&known.lease) { known.lease } else { Lease::default() };
                Some(Known { lease, since: now, is_gone: true })
            }
            (None, before) => before,
        };
        if let Some(known) = &self.known {
            if known.is_gone && self.is_ours(&known.lease) {
                // Who has just started may have taken it. If nobody has, this extender does, as a new leader.
                self.leadership.stand_by(None);
            }
            let is_over = now >= known.since + duration(&known.lease).max(self.settings.lease_duration);
            match holder(&known.lease) {
                Some(holder) if holder == self.identity => {}
                Some(holder) if !is_over => {
                    self.leadership.stand_by(Some(holder.to_owned()));
                    return Ok(());
                }
                Some(holder) => {
                    reached("extender: lease of another leader is over");
                    info!(holder, "the Lease of the leader is over");
                }
                // Another one may have led since this extender did.
                None if is_over || was_ours || (is_given_back(&known.lease) && !known.is_gone) => {
                    self.leadership.stand_by(None);
                }
                // Its holder may place pods until it is over.
                None => {
                    if known.since == now && !known.is_gone {
                        warn!(lease = self.settings.lease, "somebody has emptied the Lease");
                    }
                    self.leadership.stand_by(None);
                    return Ok(());
                }
            }
        }
        self.hold().await
    }

    /// Writes that the Lease is held.
    async fn hold(&mut self) -> Result<(), LeaseError> {
        // Whoever takes over counts from when it sees this write, which is not before it was sent.
        let began = Instant::now();
        let led = self.leadership.leads();
        let known = self.known.as_ref().filter(|known| !known.is_gone);
        let lease = self.lease.hold(known.map(|known| &known.lease)).await?;
        self.known = Some(Known { lease, since: Instant::now(), is_gone: false });
        self.leadership.hold(began + self.settings.lease_duration - self.settings.margin());
        if !led {
            reached("extender: leader elected");
            info!(lease = self.settings.lease, identity = self.identity, "this replica leads now");
        }
        Ok(())
    }

    fn is_ours(&self, lease: &Lease) -> bool {
        holder(lease) == Some(&self.identity)
    }

    fn log(&mut self, error: &LeaseError) {
        reached("extender: lease not read or written");
        let reason = error.to_string();
        if self.failed.as_ref() != Some(&reason) {
            warn!(
                lease = self.settings.lease,
                reason, "the Lease cannot be read or written; without it no pod is placed"
            );
            self.failed = Some(reason);
        }
    }
}
