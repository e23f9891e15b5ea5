//! Which of several extenders places pods: the one that holds a Lease. Asked by the binder right before each Binding; kept by
//! [`election`], followed by [`tenure`]. Without an election this extender places alone, once it has [begun](alone).
//!
//! A Binding says nothing of who sent it, so nobody can refuse that of a deposed leader. What keeps two from placing at once is time: a
//! leader sends no Binding, and neither it nor the API server goes on with one, in the last part of its Lease ([`LeaderElection::margin`]),
//! and who takes over waits until the Lease has been over by its own clock, then lists the pods anew.

pub(crate) mod alone;
mod election;
mod label;
mod lease;
mod tenure;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use runtime::reached;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

pub(crate) use self::election::Election;
pub(crate) use self::label::LeaderLabel;
pub(crate) use self::tenure::Tenure;

/// So long a leader counts as new.
const NEW: Duration = Duration::from_secs(60);

/// How replicas of the extender elect the one that places pods.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// The namespace of the Lease, and of the replicas' pods.
    pub namespace: String,
    /// The Lease's name.
    pub lease: String,
    /// How long the Lease lasts after a renewal; whole seconds, at least one. So long nobody places pods where a leader has died.
    pub lease_duration: Duration,
    /// The name of this replica's pod, by which people know who leads.
    pub pod: String,
    /// Whether the leader's pod gets the leader's label; else who calls must find the leader otherwise.
    pub labels_pod: bool,
}

/// Whether this extender may place pods.
#[derive(Debug)]
pub(crate) struct Leadership {
    state: Mutex<State>,
    /// How often this extender has become the leader.
    tenures: AtomicU64,
    /// When it began to place pods: to lead, with the pods listed, or to be.
    since: Mutex<Instant>,
    changed: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// There is no election, and what a process before this one had under way may still be carried out.
    Starting,
    /// There is no election.
    Alone,
    /// Another one leads, as far as it is known which.
    Standby { leader: Option<String> },
    Leader {
        /// Which of the times that this extender has led.
        tenure: u64,
        /// When it has to stop placing pods unless the Lease is renewed.
        until: Instant,
        /// Whether the pods have been listed since it became the leader.
        has_listed: bool,
        /// Whether the Lease was found changed, and it is not known yet who holds it.
        is_in_doubt: bool,
    },
}

/// This extender may not place pods now.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotLeading {
    /// Another one does, or nobody.
    #[error(
        "this replica of the Neuron scheduler does not place pods, {} does; kube-scheduler tries again",
        .leader.as_deref().unwrap_or("the one that holds their Lease")
    )]
    Standby {
        /// Who holds the Lease.
        leader: Option<String>,
    },
    /// There is no other one, and it has just started.
    #[error(
        "the Neuron scheduler has just started, and a Binding of the process before it may still be under way; kube-scheduler tries again"
    )]
    Starting,
    /// It has just become the leader.
    #[error(
        "this replica of the Neuron scheduler has just taken over and lists the pods; kube-scheduler tries again"
    )]
    TakingOver,
    /// Its Lease was changed by somebody.
    #[error(
        "this replica of the Neuron scheduler looks whether it still holds the Lease of its leader; kube-scheduler tries again"
    )]
    InDoubt,
}

impl LeaderElection {
    /// The part of the Lease in which no Binding is sent or waited for: clocks do not run alike, and an API server may be late.
    fn margin(&self) -> Duration {
        self.lease_duration / 5
    }

    /// Time between two renewals, and between two looks at the Lease of another leader.
    fn period(&self) -> Duration {
        self.lease_duration / 8
    }

    /// Longest wait for the API server: two of them fit between a renewal and the margin.
    fn call_timeout(&self) -> Duration {
        self.lease_duration / 4
    }
}

impl Leadership {
    /// That of an extender which places alone.
    pub(crate) fn alone() -> Self {
        Self::of(State::Alone)
    }

    /// That of an extender without an election which does not place pods yet.
    pub(crate) fn starting() -> Self {
        Self::of(State::Starting)
    }

    /// That of one among several, which does not lead yet.
    pub(crate) fn elected() -> Self {
        Self::of(State::Standby { leader: None })
    }

    fn of(state: State) -> Self {
        Self {
            state: Mutex::new(state),
            tenures: AtomicU64::new(0),
            since: Mutex::new(Instant::now()),
            changed: Notify::new(),
        }
    }

    /// Until when a Binding may be sent and waited for; none: without end.
    ///
    /// # Errors
    /// None may be sent now.
    pub(crate) fn places_until(&self) -> Result<Option<Instant>, NotLeading> {
        match &*self.lock() {
            State::Starting => Err(NotLeading::Starting),
            State::Alone => Ok(None),
            // Planted: a Binding is sent by who has been deposed meanwhile.
            #[cfg(planted)]
            State::Leader { .. } if runtime::is_planted("lease-margin-not-looked-at") => Ok(None),
            State::Leader { until, .. } if Instant::now() >= *until => {
                reached("extender: lease over before a binding");
                Err(NotLeading::Standby { leader: None })
            }
            State::Leader { is_in_doubt: true, .. } => Err(NotLeading::InDoubt),
            State::Leader { has_listed: false, .. } => Err(NotLeading::TakingOver),
            State::Leader { until, .. } => Ok(Some(*until)),
            State::Standby { leader } => Err(NotLeading::Standby { leader: leader.clone() }),
        }
    }

    /// The same, for which a call waits a little where this extender has just started or taken over, or looks whether it still leads.
    ///
    /// # Errors
    /// None may be sent by then.
    pub(crate) async fn places_by(&self, limit: Instant) -> Result<(), NotLeading> {
        loop {
            let changed = self.changed.notified();
            let not_leading = match self.places_until() {
                Err(not_leading @ (NotLeading::Starting | NotLeading::TakingOver | NotLeading::InDoubt)) => {
                    not_leading
                }
                Err(not_leading) => {
                    reached("extender: bind while another leads");
                    return Err(not_leading);
                }
                Ok(_) => return Ok(()),
            };
            if timeout_at(limit, changed).await.is_err() {
                if not_leading == NotLeading::Starting {
                    reached("extender: bind right after the start");
                } else {
                    reached("extender: bind while the leader takes over");
                }
                return Err(not_leading);
            }
        }
    }

    /// Whether this extender leads, whatever it may do yet. Without an election it does.
    pub(crate) fn leads(&self) -> bool {
        match &*self.lock() {
            State::Starting | State::Alone => true,
            State::Standby { .. } => false,
            State::Leader { until, .. } => Instant::now() < *until,
        }
    }

    /// Whether this extender places pods now.
    pub(crate) fn places(&self) -> bool {
        match *self.lock() {
            State::Alone => true,
            State::Leader { until, has_listed, is_in_doubt, .. } => {
                has_listed && !is_in_doubt && Instant::now() < until
            }
            State::Starting | State::Standby { .. } => false,
        }
    }

    /// Waits until this extender leads.
    pub(crate) async fn leads_at_last(&self) {
        loop {
            let changed = self.changed.notified();
            if self.leads() {
                return;
            }
            changed.await;
        }
    }

    /// Whether it has placed pods for less than a minute.
    pub(crate) fn is_new(&self) -> bool {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).elapsed() < NEW
    }

    /// What a process before this one had under way is over.
    fn begin(&self) {
        self.change(|state| *state = State::Alone);
        self.restart_new_period();
    }

    /// The Lease is held, and places may be given until then.
    fn hold(&self, until: Instant) {
        self.change(|state| {
            let (tenure, has_listed) = match *state {
                State::Leader { tenure, has_listed, until, .. } if Instant::now() < until => {
                    (tenure, has_listed)
                }
                _ => {
                    self.restart_new_period();
                    (self.tenures.fetch_add(1, Ordering::Relaxed), false)
                }
            };
            *state = State::Leader { tenure, until, has_listed, is_in_doubt: false };
        });
    }

    /// Somebody has changed the Lease: no pod is placed until it is seen who holds it.
    fn mark_in_doubt(&self) {
        self.change(|state| {
            if let State::Leader { is_in_doubt, .. } = state {
                *is_in_doubt = true;
            }
        });
    }

    /// Another one holds the Lease, or nobody.
    fn stand_by(&self, leader: Option<String>) {
        self.change(|state| *state = State::Standby { leader });
    }

    /// The pods have been listed since this tenure began.
    fn place_from_now(&self, of: u64) {
        self.change(|state| {
            if let State::Leader { tenure, has_listed: has_listed @ false, .. } = state
                && *tenure == of
            {
                *has_listed = true;
                self.restart_new_period();
            }
        });
    }

    /// Waits until this extender leads. Which tenure it is.
    async fn begins(&self) -> u64 {
        loop {
            let changed = self.changed.notified();
            if let State::Leader { tenure, until, .. } = *self.lock()
                && Instant::now() < until
            {
                return tenure;
            }
            changed.await;
        }
    }

    /// Waits until it does not lead any more, or not in this tenure.
    async fn ends(&self, of: u64) {
        loop {
            let changed = self.changed.notified();
            let until = match *self.lock() {
                State::Leader { tenure, until, .. } if tenure == of => until,
                _ => return,
            };
            if timeout_at(until, changed).await.is_err() && self.is_over(of) {
                return;
            }
        }
    }

    fn is_over(&self, of: u64) -> bool {
        !matches!(*self.lock(), State::Leader { tenure, until, .. } if tenure == of && Instant::now() < until)
    }

    /// The minute begins in which it counts as new.
    fn restart_new_period(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// It has been elected for so long.
    #[cfg(test)]
    pub(crate) fn lead_for(&self, time: Duration) {
        self.hold(Instant::now() + time);
    }

    /// The pods have been listed.
    #[cfg(test)]
    pub(crate) fn has_listed_now(&self) {
        let tenure = self.tenures.load(Ordering::Relaxed) - 1;
        self.place_from_now(tenure);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
