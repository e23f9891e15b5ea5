//! `/bind`: chooses a pod's hardware, records it and binds the pod in one write. Called by the routes.
//!
//! Choosing and reserving is one step under the index' lock, which is let go before the API is called: binds
//! to one node wait for each other's choice, never for each other's API calls.

mod binding;
mod error;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;
use neuron_core::names::{ALLOCATION, NEURON_CORES, NEURON_DEVS};
use neuron_core::pod::BoundPod;
use neuron_core::record::Allocation;
use tokio::time::{Instant, sleep};
use tokio_util::task::TaskTracker;

use self::binding::{LivePod, Order, Outcome, post, read};
pub(crate) use self::error::BindError;
use crate::config::Config;
use crate::index::{Cluster, Index};
use crate::wire::BindArgs;

/// Binds pods. Clones share the cluster and the tasks.
#[derive(Clone)]
pub(crate) struct Binder {
    cluster: Arc<Cluster>,
    client: Client,
    deadline: Duration,
    unclear_for: Duration,
    tasks: TaskTracker,
}

/// A pod that is bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// With this record.
    Recorded(Arc<BTreeMap<String, String>>),
    /// Without one: it asks for no Neuron hardware.
    Plain,
    /// It was bound before, with a record that counts.
    Before,
}

impl Binder {
    /// A binder for this cluster.
    pub(crate) fn new(cluster: Arc<Cluster>, client: Client, config: &Config) -> Self {
        let (deadline, unclear_for) = (config.bind_deadline, config.unclear_for);
        Self { cluster, client, deadline, unclear_for, tasks: TaskTracker::new() }
    }

    /// Binds a pod, or says why not. A repeated call for a pod that is bound here is a success.
    pub(crate) async fn bind(&self, args: BindArgs) -> Result<Bound, BindError> {
        let binder = self.clone();
        // A task of its own: a caller that hangs up must not leave a bind half done.
        let task = self.tasks.spawn(async move { binder.run(args).await });
        task.await.unwrap_or(Err(BindError::Stopped))
    }

    /// Waits until every bind under way has ended.
    pub(crate) async fn finish(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }

    async fn run(&self, args: BindArgs) -> Result<Bound, BindError> {
        let start = Instant::now();
        // The last quarter is for reading the pod where the outcome of the Binding is not clear.
        let (write_until, until) = (start + self.deadline * 3 / 4, start + self.deadline);
        self.cluster.listed().await?;
        let found = self.find(&args, write_until).await?;
        if let Some(node) = &found.node {
            return self.bound_before(&found.pod, node, &args.node);
        }
        let request = found.pod.request.as_ref().map_err(Clone::clone)?;
        let BindArgs { pod_name: name, pod_namespace: namespace, pod_uid: uid, node } = args;
        let mut order = Order { namespace, name, uid, node, annotations: Arc::default() };
        if request.is_empty() {
            return self.carry_out(&order, write_until, until).await.map(|()| Bound::Plain);
        }
        order.annotations = self.cluster.write(|index| reserve(index, &found.pod, &order))?;
        let carried_out = self.carry_out(&order, write_until, until).await;
        match &carried_out {
            Ok(()) | Err(BindError::Unclear { .. }) => self.look_after(order.clone()),
            Err(_) => self.release(&order),
        }
        carried_out.map(|()| Bound::Recorded(order.annotations))
    }

    /// The pod as the watch shows it, else as the API server has it.
    async fn find(&self, args: &BindArgs, until: Instant) -> Result<LivePod, BindError> {
        let seen = self.cluster.read(|index| {
            let (pod, node) = index.pod(&args.pod_uid)?;
            let is_asked = pod.namespace == args.pod_namespace && pod.name == args.pod_name;
            is_asked.then(|| LivePod { node: node.map(str::to_owned), pod: pod.clone() })
        });
        if let Some(seen) = seen {
            return Ok(seen);
        }
        match read(&self.client, &args.pod_namespace, &args.pod_name, until).await {
            Ok(Some(live)) if live.pod.uid == args.pod_uid => Ok(live),
            Ok(Some(live)) => Err(BindError::Replaced { asked: args.pod_uid.clone(), found: live.pod.uid }),
            Ok(None) => Err(BindError::Gone),
            Err(why) => Err(BindError::NotRead(why)),
        }
    }

    /// A pod that is bound to `node` already, when it was to be bound to `asked`.
    fn bound_before(&self, pod: &BoundPod, node: &str, asked: &str) -> Result<Bound, BindError> {
        if node != asked {
            return Err(BindError::Elsewhere { node: node.to_owned() });
        }
        if pod.request.as_ref().is_ok_and(|request| request.is_empty()) {
            return Ok(Bound::Plain);
        }
        let counts = self.cluster.read(|index| index.view(node).is_some_and(|view| view.has_record_of(pod)));
        if counts { Ok(Bound::Before) } else { Err(BindError::BoundWithoutRecord) }
    }

    /// Sends the Binding; where it is not clear what became of it, the pod says.
    async fn carry_out(&self, order: &Order, write_until: Instant, until: Instant) -> Result<(), BindError> {
        let (why, is_conflict) = match post(&self.client, order, write_until).await {
            Outcome::Bound => return Ok(()),
            Outcome::Refused(why) => return Err(BindError::Refused(why)),
            Outcome::Conflict(why) => (why, true),
            Outcome::Unclear(why) => (why, false),
        };
        match read(&self.client, &order.namespace, &order.name, until).await {
            Ok(None) => Err(BindError::Gone),
            Ok(Some(live)) if live.pod.uid != order.uid => {
                Err(BindError::Replaced { asked: order.uid.clone(), found: live.pod.uid })
            }
            Ok(Some(LivePod { node: Some(node), pod })) => {
                let ours = node == order.node
                    && pod.annotations.get(ALLOCATION) == order.annotations.get(ALLOCATION);
                if ours { Ok(()) } else { self.bound_before(&pod, &node, &order.node).map(|_| ()) }
            }
            Ok(Some(LivePod { node: None, .. })) if is_conflict => Err(BindError::Refused(why)),
            // Unbound now, but a request that was cut off may still be carried out.
            Ok(Some(LivePod { node: None, .. })) | Err(_) => Err(BindError::Unclear { why }),
        }
    }

    fn release(&self, order: &Order) {
        self.cluster.write(|index| index.release(&order.uid, &order.node));
    }

    /// Gives up a reservation that the watch never settles: its Binding can no longer be carried out, or the
    /// pod came and went while the watch was being taken up again.
    fn look_after(&self, order: Order) {
        let binder = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(binder.unclear_for).await;
                if !binder.cluster.read(|index| index.has_reservation(&order.uid, &order.node)) {
                    return;
                }
                let until = Instant::now() + binder.deadline;
                let holds = match read(&binder.client, &order.namespace, &order.name, until).await {
                    Ok(Some(LivePod { node: Some(node), pod })) => {
                        node == order.node && pod.uid == order.uid && !pod.terminal
                    }
                    Ok(_) => false,
                    Err(_) => true,
                };
                if !holds {
                    return binder.release(&order);
                }
            }
        });
    }
}

/// Chooses and reserves, or takes what an earlier bind of the same pod reserved on the node.
fn reserve(
    index: &mut Index,
    pod: &BoundPod,
    order: &Order,
) -> Result<Arc<BTreeMap<String, String>>, BindError> {
    if let Some(reservation) = index.join_reservation(&order.uid, &order.node) {
        return Ok(reservation.annotations);
    }
    let request = pod.request.as_ref().map_err(Clone::clone)?;
    let view = index.view(&order.node).ok_or_else(|| BindError::NoNode { node: order.node.clone() })?;
    let (placement, occupancy) = view.place(request)?;
    let topology = occupancy.topology();
    let cores = placement.hardware(topology);
    let allocation = Allocation::of(&order.node, topology, &placement);
    let now = Timestamp::now().as_nanosecond().to_string();
    let annotations = Arc::new(allocation.annotations(false, &now));
    index.reserve(&order.uid, &order.node, cores, annotations.clone());
    Ok(annotations)
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::Plain => f.write_str("it asks for no Neuron devices"),
            Bound::Before => f.write_str("it was bound there before"),
            Bound::Recorded(annotations) => {
                let ids = |(key, noun)| Some(format!("{noun} {}", annotations.get(key)?));
                let parts = [(NEURON_DEVS, "devices"), (NEURON_CORES, "cores")].into_iter().filter_map(ids);
                f.write_str(&parts.collect::<Vec<_>>().join(", "))
            }
        }
    }
}
