//! `/bind`: chooses a pod's hardware, records it and binds the pod in one write. Called by the routes.
//!
//! A place is searched for while the index is free, and reserved under its lock if the node is still as it was; then the API is called:
//! binds to one node never wait for each other's API calls. Of several extenders only the leader binds.

mod binding;
mod error;
mod reservation;
#[cfg(test)]
mod tests;
mod which_pod;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use kube::Client;
use neuron_core::names::{ALLOCATION, NEURON_CORES, NEURON_DEVS};
use runtime::system::TaskEnded;
use runtime::{System, reached};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, info, info_span, warn};

use self::binding::{BindingRequest, LivePod, Outcome, post, read};
pub(crate) use self::error::BindError;
use self::reservation::Held;
use super::admitted::Admitted;
pub(crate) use super::bound::Bound;
use crate::classic_log::ClassicBind;
use crate::index::Cluster;
use crate::leadership::Leadership;
use crate::metrics::{BindPart, Metrics};
use crate::wire::BindArgs;

/// Most binds under way. Each has a call to the API server open, and goes on where its caller has hung up, so that no connection and no
/// body bounds them. kube-scheduler begins some hundred a second, and each takes milliseconds.
const MOST_AT_ONCE: usize = 1024;

/// Time that must be left for the API server's answer when a Binding is sent: so much, or of a short bind an eighth.
const LEAST_FOR_BINDING: Duration = Duration::from_millis(250);

/// How long a bind and its Binding may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BindTimeouts {
    /// Longest time for a whole bind.
    pub(crate) bind: Duration,
    /// How long after a call was cut off the API server may still carry out its Binding.
    pub(crate) binding: Duration,
}

/// Binds pods. Clones share the cluster and the tasks.
#[derive(Clone)]
pub(crate) struct Binder {
    system: System,
    cluster: Arc<Cluster>,
    client: Client,
    timeouts: BindTimeouts,
    binds: TaskTracker,
    /// A place for each bind that may be under way.
    places: Arc<Semaphore>,
    end: CancellationToken,
    /// Set when the extender stops: no bind begins any more.
    stopping: CancellationToken,
    leadership: Arc<Leadership>,
    admitted: Arc<Admitted>,
    metrics: Arc<Metrics>,
}

impl Binder {
    /// A binder for this cluster. Whatever it has under way is cut off at the `end`.
    pub(crate) fn new(
        system: System,
        cluster: Arc<Cluster>,
        client: Client,
        timeouts: BindTimeouts,
        end: CancellationToken,
    ) -> Self {
        Self {
            system,
            cluster,
            client,
            timeouts,
            binds: TaskTracker::new(),
            places: Arc::new(Semaphore::new(MOST_AT_ONCE)),
            end,
            stopping: CancellationToken::new(),
            leadership: Arc::new(Leadership::alone()),
            admitted: Arc::default(),
            metrics: Arc::default(),
        }
    }

    /// The same, which binds while this leadership lasts.
    pub(crate) fn led_by(self, leadership: Arc<Leadership>) -> Self {
        Self { leadership, ..self }
    }

    /// The same, which binds what filter has admitted.
    pub(crate) fn admitting(self, admitted: Arc<Admitted>) -> Self {
        Self { admitted, ..self }
    }

    /// The same, counted by these metrics.
    pub(crate) fn counted_by(self, metrics: Arc<Metrics>) -> Self {
        Self { metrics, ..self }
    }

    /// Binds a pod. A repeated call for a pod that is bound here is a success.
    ///
    /// # Errors
    /// Why it was not bound.
    pub(crate) async fn bind(&self, args: BindArgs) -> Result<Bound, BindError> {
        let pod = format!("{}/{}", args.pod_namespace, args.pod_name);
        let span = info_span!("bind", pod, node = args.node);
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            reached("extender: too many binds under way");
            let refused = Err(BindError::TooMany);
            span.in_scope(|| log(&refused));
            return refused;
        };
        let binder = self.clone();
        // A task of its own: a caller that hangs up must not leave a bind half done.
        let run = async move {
            let _place = place;
            let classic = ClassicBind::of(&args);
            let bound = binder.run(args).await;
            log(&bound);
            if let (Some(classic), Ok(bound)) = (classic, &bound) {
                classic.bound(bound, &binder.cluster);
            }
            bound
        }
        .boxed();
        let run = self.end.clone().run_until_cancelled_owned(run.instrument(span));
        match self.system.spawn(self.binds.track_future(run)).await {
            Ok(Some(bound)) => bound,
            Ok(None) | Err(TaskEnded::Aborted) => {
                reached("extender: bind broke off");
                Err(BindError::Stopped)
            }
            Err(TaskEnded::Panicked(_)) => {
                reached("extender: bind panicked");
                Err(BindError::Panicked)
            }
        }
    }

    /// Begins no bind any more, and waits until every one under way has ended.
    pub(crate) async fn finish(&self) {
        self.stopping.cancel();
        self.binds.close();
        self.binds.wait().await;
    }

    /// Whether no bind begins any more.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// How many binds are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.binds.len()
    }

    async fn run(&self, args: BindArgs) -> Result<Bound, BindError> {
        let start = Instant::now();
        // The last quarter is for reading the pod where the Binding's outcome is not known.
        let (write_until, until) = (start + self.timeouts.bind * 3 / 4, start + self.timeouts.bind);
        // Half is left for the Binding where this extender has just taken over.
        let begin_by = start + self.timeouts.bind / 2;
        if self.stopping.is_cancelled() {
            reached("extender: bind while stopping");
            return Err(BindError::Stopped);
        }
        self.cluster.listed().await.inspect_err(|_| reached("extender: bind before the first lists"))?;
        self.leadership.places_by(begin_by).await?;
        // Before the pod: once the watch shows it bound it is neither admitted nor reserved for.
        let is_admitted = self.is_admitted(&args);
        let not_admitted = |node: &str| {
            if self.cluster.read(|index| index.view(node).is_none()) {
                return unknown_node(node);
            }
            reached("extender: bind that filter has not admitted");
            BindError::NotAdmitted { node: node.to_owned() }
        };
        let found = match self.observed_pod(&args) {
            Some(found) => found,
            // Who makes up pods must not have the API server asked for each.
            None if !is_admitted && !self.leadership.is_new() => return Err(not_admitted(&args.node)),
            None => self.read_pod(&args, write_until).await?,
        };
        if let Some(node) = &found.node {
            return self.bound_before(&found.pod, node, &args.node);
        }
        let request = found.pod.request.as_ref().map_err(|error| (**error).clone())?;
        self.admits_claim(&found.pod, &args.node)?;
        // Who has just begun to lead knows nothing of what another one said of pods that ask for Neuron hardware.
        let asks = !request.is_empty() || found.pod.claim.is_some();
        let may_be_bound = is_admitted || (asks && self.leadership.is_new());
        if !may_be_bound {
            return Err(not_admitted(&args.node));
        }
        let BindArgs { pod_name: name, pod_namespace: namespace, pod_uid: uid, node } = args;
        let mut binding = BindingRequest { namespace, name, uid, node, annotations: Arc::default() };
        if request.is_empty() {
            let bound = self.carry_out(&binding, write_until, until).await?;
            return Ok(bound.unwrap_or(Bound::WithoutDevices));
        }
        let held = Held::reserve(self, &found, &mut binding)?;
        let carried_out = self.carry_out(&binding, write_until, until).await;
        match &carried_out {
            Ok(_) => {
                self.admitted.forget(&binding.uid);
                held.bound();
            }
            // Planted: the devices of a pod that may be bound are given to the next one.
            #[cfg(planted)]
            Err(BindError::OutcomeUnknown { .. }) if runtime::is_planted("unclear-binding-releases") => {
                held.release();
            }
            Err(BindError::OutcomeUnknown { .. }) => drop(held),
            Err(_) => held.release(),
        }
        Ok(carried_out?.unwrap_or(Bound::WithRecord(binding.annotations)))
    }

    /// Sends the Binding; where its outcome is not known, the pod says. How the pod was found bound, if not by this Binding.
    async fn carry_out(
        &self,
        binding: &BindingRequest,
        write_until: Instant,
        until: Instant,
    ) -> Result<Option<Bound>, BindError> {
        // Right before it is sent: a new leader may have begun since this call came.
        let write_until = match self.leadership.places_until()? {
            Some(lease_over) => write_until.min(lease_over),
            None => write_until,
        };
        // Of one that is cut off nobody knows what becomes of it, and its devices stay reserved until that is clear.
        let least = LEAST_FOR_BINDING.min(self.timeouts.bind / 8);
        if Instant::now() + least > write_until {
            reached("extender: no time left for a binding");
            return Err(BindError::NoTimeLeft);
        }
        let posted = self.timed(BindPart::Binding, post(&self.client, binding, write_until)).await;
        let (reason, is_conflict) = match posted {
            Outcome::Bound => return Ok(None),
            Outcome::Refused(reason) => {
                reached("extender: binding refused");
                return Err(BindError::BindingRefused(reason));
            }
            Outcome::Conflict(reason) => {
                reached("extender: binding met a conflict");
                // Planted: kube-scheduler takes a pod for bound that nobody has bound.
                #[cfg(planted)]
                if runtime::is_planted("conflict-is-success") {
                    return Ok(None);
                }
                (reason, true)
            }
            Outcome::Unknown(reason) => {
                reached("extender: outcome of a binding unknown");
                (reason, false)
            }
        };
        let read = read(&self.client, &binding.namespace, &binding.name, until);
        match self.timed(BindPart::Outcome, read).await {
            Ok(None) => {
                reached("extender: pod gone during its bind");
                Err(BindError::Gone)
            }
            Ok(Some(live)) if *live.pod.uid != *binding.uid => {
                reached("extender: pod replaced during its bind");
                Err(BindError::Replaced { requested: binding.uid.clone(), found: (*live.pod.uid).to_owned() })
            }
            Ok(Some(LivePod { node: Some(node), pod, .. })) => {
                let ours = node == binding.node
                    && pod.annotations.get(ALLOCATION) == binding.annotations.get(ALLOCATION);
                if ours {
                    reached("extender: binding found carried out");
                    Ok(None)
                } else {
                    self.bound_before(&pod, &node, &binding.node).map(Some)
                }
            }
            Ok(Some(LivePod { node: None, .. })) if is_conflict => {
                reached("extender: conflict of a pod that is not bound");
                Err(BindError::BindingRefused(reason))
            }
            // Unbound now, but a request that was cut off may still be carried out.
            Ok(Some(LivePod { node: None, .. })) | Err(_) => {
                reached("extender: outcome of a binding left open");
                Err(BindError::OutcomeUnknown { reason })
            }
        }
    }
}

impl Binder {
    /// Waits for the API server.
    async fn timed<T>(&self, part: BindPart, answer: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let answer = answer.await;
        self.metrics.bind_part(part, began.elapsed());
        answer
    }
}

fn unknown_node(node: &str) -> BindError {
    reached("extender: node of a bind unknown");
    BindError::UnknownNode { node: node.to_owned() }
}

fn log(bound: &Result<Bound, BindError>) {
    match bound {
        Ok(Bound::WithRecord(annotations)) => {
            let ids = |key| annotations.get(key).map(String::as_str);
            info!(devices = ids(NEURON_DEVS), cores = ids(NEURON_CORES), "pod bound");
        }
        Ok(Bound::WithoutDevices) => info!("pod bound: it asks for no Neuron hardware"),
        Ok(Bound::Already) => info!("pod already bound here"),
        Err(error) => warn!(reason = error.to_string(), "pod not bound"),
    }
}
