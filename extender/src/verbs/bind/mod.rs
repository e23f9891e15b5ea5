//! `/bind`: chooses a pod's hardware, records it and binds the pod in one write. Called by the routes.
//!
//! Choosing and reserving is one step under the index' lock, which is let go before the API is called: binds
//! to one node wait for each other's choice, never for each other's API calls.

mod binding;
mod error;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use neuron_core::names::{ALLOCATION, NEURON_CORES, NEURON_DEVS};
use neuron_core::pod::BoundPod;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;
use tracing::{Instrument as _, info, info_span, warn};

use self::binding::{BindingRequest, LivePod, Outcome, post, read};
pub(crate) use self::error::BindError;
use crate::index::{Cluster, Index};
use crate::wire::BindArgs;

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
    cluster: Arc<Cluster>,
    client: Client,
    timeouts: BindTimeouts,
    tasks: TaskTracker,
}

/// A pod that is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Bound with this record.
    WithRecord(Arc<BTreeMap<String, String>>),
    /// Bound without a record: it asks for no Neuron hardware, or a ResourceClaim gives it.
    WithoutDevices,
    /// Bound here before, with a record that counts.
    Already,
}

impl Binder {
    /// A binder for this cluster.
    pub(crate) fn new(cluster: Arc<Cluster>, client: Client, timeouts: BindTimeouts) -> Self {
        Self { cluster, client, timeouts, tasks: TaskTracker::new() }
    }

    /// Binds a pod. A repeated call for a pod that is bound here is a success.
    ///
    /// # Errors
    /// Why it was not bound.
    pub(crate) async fn bind(&self, args: BindArgs) -> Result<Bound, BindError> {
        let pod = format!("{}/{}", args.pod_namespace, args.pod_name);
        let span = info_span!("bind", pod, node = args.node);
        let binder = self.clone();
        // A task of its own: a caller that hangs up must not leave a bind half done.
        let run = async move {
            let bound = binder.run(args).await;
            log(&bound);
            bound
        };
        self.tasks.spawn(run.instrument(span)).await.unwrap_or(Err(BindError::Stopped))
    }

    /// Waits until every bind under way has ended.
    pub(crate) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn run(&self, args: BindArgs) -> Result<Bound, BindError> {
        let start = Instant::now();
        // The last quarter is for reading the pod where the Binding's outcome is not known.
        let (write_until, until) = (start + self.timeouts.bind * 3 / 4, start + self.timeouts.bind);
        self.cluster.listed().await?;
        let found = self.find_pod(&args, write_until).await?;
        if let Some(node) = &found.node {
            return self.bound_before(&found.pod, node, &args.node);
        }
        let request = found.pod.request.as_ref().map_err(Clone::clone)?;
        self.admits_claim(&found.pod, &args.node)?;
        let BindArgs { pod_name: name, pod_namespace: namespace, pod_uid: uid, node } = args;
        let mut binding = BindingRequest { namespace, name, uid, node, annotations: Arc::default() };
        if request.is_empty() {
            return self.carry_out(&binding, write_until, until).await.map(|()| Bound::WithoutDevices);
        }
        binding.annotations = self.cluster.write(|index| reserve(index, &found.pod, &binding))?;
        let carried_out = self.carry_out(&binding, write_until, until).await;
        match &carried_out {
            Ok(()) | Err(BindError::OutcomeUnknown { .. }) => self.release_if_unused(binding.clone()),
            Err(_) => self.release(&binding),
        }
        carried_out.map(|()| Bound::WithRecord(binding.annotations))
    }

    /// Whether the node may have the pod, if a ResourceClaim gives it anything.
    fn admits_claim(&self, pod: &BoundPod, node: &str) -> Result<(), BindError> {
        if pod.claim.is_none() {
            return Ok(());
        }
        self.cluster.read(|index| {
            let view = index.view(node).ok_or_else(|| BindError::UnknownNode { node: node.to_owned() })?;
            Ok(view.admits_claim(pod.claim.as_ref())?)
        })
    }

    /// The pod as the watch shows it, else as the API server has it. A node without what the pod asks for gets it only if
    /// kube-scheduler has just written to the pod that a ResourceClaim gives it, which the watch may not have shown yet.
    async fn find_pod(&self, args: &BindArgs, until: Instant) -> Result<LivePod, BindError> {
        let observed = self.cluster.read(|index| {
            let (pod, node) = index.pod(&args.pod_uid)?;
            let is_requested = pod.namespace == args.pod_namespace && pod.name == args.pod_name;
            let advertises = |request| index.view(&args.node).is_none_or(|view| view.advertises(request));
            let is_current = node.is_some() || pod.request.as_ref().is_ok_and(advertises);
            (is_requested && is_current).then(|| LivePod { node: node.map(str::to_owned), pod: pod.clone() })
        });
        if let Some(observed) = observed {
            return Ok(observed);
        }
        match read(&self.client, &args.pod_namespace, &args.pod_name, until).await {
            Ok(Some(live)) if live.pod.uid == args.pod_uid => Ok(live),
            Ok(Some(live)) => {
                Err(BindError::Replaced { requested: args.pod_uid.clone(), found: live.pod.uid })
            }
            Ok(None) => Err(BindError::Gone),
            Err(reason) => Err(BindError::NotRead(reason)),
        }
    }

    /// The answer for a pod that is already bound to `node`.
    fn bound_before(&self, pod: &BoundPod, node: &str, requested: &str) -> Result<Bound, BindError> {
        if node != requested {
            return Err(BindError::BoundElsewhere { node: node.to_owned() });
        }
        if pod.request.as_ref().is_ok_and(|request| request.is_empty()) {
            return Ok(Bound::WithoutDevices);
        }
        let counts = self.cluster.read(|index| index.view(node).is_some_and(|view| view.has_record_of(pod)));
        if counts { Ok(Bound::Already) } else { Err(BindError::BoundWithoutRecord) }
    }

    /// Sends the Binding; where its outcome is not known, the pod says.
    async fn carry_out(
        &self,
        binding: &BindingRequest,
        write_until: Instant,
        until: Instant,
    ) -> Result<(), BindError> {
        let (reason, is_conflict) = match post(&self.client, binding, write_until).await {
            Outcome::Bound => return Ok(()),
            Outcome::Refused(reason) => return Err(BindError::BindingRefused(reason)),
            Outcome::Conflict(reason) => (reason, true),
            Outcome::Unknown(reason) => (reason, false),
        };
        match read(&self.client, &binding.namespace, &binding.name, until).await {
            Ok(None) => Err(BindError::Gone),
            Ok(Some(live)) if live.pod.uid != binding.uid => {
                Err(BindError::Replaced { requested: binding.uid.clone(), found: live.pod.uid })
            }
            Ok(Some(LivePod { node: Some(node), pod })) => {
                let ours = node == binding.node
                    && pod.annotations.get(ALLOCATION) == binding.annotations.get(ALLOCATION);
                if ours { Ok(()) } else { self.bound_before(&pod, &node, &binding.node).map(|_| ()) }
            }
            Ok(Some(LivePod { node: None, .. })) if is_conflict => Err(BindError::BindingRefused(reason)),
            // Unbound now, but a request that was cut off may still be carried out.
            Ok(Some(LivePod { node: None, .. })) | Err(_) => Err(BindError::OutcomeUnknown { reason }),
        }
    }

    fn release(&self, binding: &BindingRequest) {
        self.cluster.write(|index| index.release(&binding.uid, &binding.node));
    }

    /// Releases, after a while, a reservation that the watch never removes: its Binding can no longer be carried out, or
    /// the pod came and went while the watch was disconnected.
    fn release_if_unused(&self, binding: BindingRequest) {
        let binder = self.clone();
        let wait = async move {
            loop {
                sleep(binder.timeouts.binding).await;
                if !binder.cluster.read(|index| index.has_reservation(&binding.uid, &binding.node)) {
                    return;
                }
                let until = Instant::now() + binder.timeouts.bind;
                let holds = match read(&binder.client, &binding.namespace, &binding.name, until).await {
                    Ok(Some(LivePod { node: Some(node), pod })) => {
                        node == binding.node && pod.uid == binding.uid && !pod.terminal
                    }
                    Ok(_) => false,
                    Err(_) => true,
                };
                if !holds {
                    info!("reservation released: the pod is not bound here");
                    return binder.release(&binding);
                }
            }
        };
        tokio::spawn(wait.in_current_span());
    }
}

/// Chooses and reserves, or takes what an earlier bind of the same pod reserved on the node.
fn reserve(
    index: &mut Index,
    pod: &BoundPod,
    binding: &BindingRequest,
) -> Result<Arc<BTreeMap<String, String>>, BindError> {
    if let Some(reservation) = index.join_reservation(&binding.uid, &binding.node) {
        return Ok(reservation.annotations);
    }
    let request = pod.request.as_ref().map_err(Clone::clone)?;
    let view =
        index.view(&binding.node).ok_or_else(|| BindError::UnknownNode { node: binding.node.clone() })?;
    let (placement, occupancy) = view.place(request)?;
    let topology = occupancy.topology();
    let cores = placement.hardware(topology);
    let allocation = placement.allocation(&binding.node, topology);
    let now = Timestamp::now().as_nanosecond().to_string();
    let annotations = Arc::new(allocation.annotations(false, &now));
    index.reserve(&binding.uid, &binding.node, cores, annotations.clone());
    Ok(annotations)
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
