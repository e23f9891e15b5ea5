//! What a bind reserves until the watch shows its pod, and when that is let go. Called by the binder.
//!
//! A place is searched for while the index is free. What is found is reserved if the node is still as it was looked at.
//! Once the Binding is carried out the watch lets it go: it shows the pod bound or gone, in its changes or by a new list.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Placement, Refusal, place_counted};
use neuron_core::request::PodRequest;
use runtime::reached;
use tokio::time::{Instant, sleep};
use tracing::{Instrument as _, info};

use super::binding::{BindingRequest, LivePod, read};
use super::{BindError, Binder, unknown_node};
use crate::index::{Cluster, Index, NodeRefusal, NodeView, ReservationId};
use crate::metrics::{BindPart, Verb};

/// Most searches of one bind: while it searches, other binds and the watches may change the node.
const MOST_SEARCHES: u32 = 4;

/// How many reads of a pod may fail before all pods are listed instead: the extender may have lost the right to read it, or the API server may
/// be busy.
const MOST_UNREAD: u32 = 1;

/// The annotations with the record of what is reserved, and which reservation it is.
type Reserved = (Arc<BTreeMap<String, String>>, ReservationId);

/// A reservation in the hands of one bind. One that is dropped before it was said what became of the Binding, as by a panic, is kept until
/// that is clear.
pub(super) struct Held {
    binder: Binder,
    binding: BindingRequest,
    id: ReservationId,
    is_settled: bool,
}

impl Held {
    /// Reserves what the binding's pod asks for, and writes the record for it into the binding.
    ///
    /// # Errors
    /// The node does not take the pod, or not any more.
    pub(super) fn reserve(
        binder: &Binder,
        pod: &LivePod,
        binding: &mut BindingRequest,
    ) -> Result<Self, BindError> {
        let now = binder.system.now();
        let search = |request: &PodRequest, occupancy: &Occupancy| {
            let began = Instant::now();
            let (placed, cost) = place_counted(request, occupancy);
            binder.metrics.bind_part(BindPart::Search, began.elapsed());
            binder.metrics.searched(Verb::Bind, cost);
            placed
        };
        let (annotations, id) = reserve(&binder.cluster, pod, binding, now, search)?;
        binding.annotations = annotations;
        Ok(Self { binder: binder.clone(), binding: binding.clone(), id, is_settled: false })
    }

    /// The Binding was carried out: the watch shows it.
    pub(super) fn bound(mut self) {
        self.is_settled = true;
    }

    /// Nothing was bound, and nothing will be.
    pub(super) fn release(mut self) {
        self.is_settled = true;
        self.binder.release(&self.binding, self.id);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // At the end of the program nobody waits for anything.
        if self.is_settled || self.binder.end.is_cancelled() {
            return;
        }
        let BindingRequest { uid, node, .. } = &self.binding;
        self.binder.cluster.write(|index| index.mark_unclear(uid, node, self.id));
        self.binder.release_when_clear(self.binding.clone(), self.id);
    }
}

/// Chooses by `search` and reserves, or takes what an earlier bind of the same pod reserved on the node.
///
/// # Errors
/// The node does not take the pod, or has changed during each of [`MOST_SEARCHES`].
pub(super) fn reserve(
    cluster: &Cluster,
    pod: &LivePod,
    binding: &BindingRequest,
    now: SystemTime,
    search: impl Fn(&PodRequest, &Occupancy) -> Result<Placement, Refusal>,
) -> Result<Reserved, BindError> {
    let BindingRequest { uid, node, .. } = binding;
    let refused = |refusal: NodeRefusal| {
        reached("extender: pod refused at its bind");
        BindError::from(refusal)
    };
    for _ in 0..MOST_SEARCHES {
        let request = pod.pod.request.as_ref().map_err(|error| (**error).clone())?;
        let (occupancy, has_reservations) = cluster.read(|index| {
            let view = index.view(node).ok_or_else(|| unknown_node(node))?;
            let occupancy = takes(index, view, pod).cloned().map_err(refused)?;
            Ok::<_, BindError>((occupancy, index.reservations_of(uid).is_some()))
        })?;
        if has_reservations && let Some(reserved) = cluster.write(|index| join(index, uid, node)) {
            return Ok(reserved);
        }
        let placed = search(request, &occupancy);
        let reserved = cluster.write(|index| {
            let is_still_so = index.view(node).is_some_and(|view| view.is_still(&occupancy));
            is_still_so.then(|| placed.map(|placement| keep(index, binding, &placement, &occupancy, now)))
        });
        match reserved {
            Some(reserved) => return reserved.map_err(|refusal| refused(refusal.into())),
            None => reached("extender: node changed while a place was searched for"),
        }
    }
    Err(BindError::NodeChanges { node: node.clone(), searches: MOST_SEARCHES })
}

/// What is taken of the node, if it takes the pod for all that filter asks before it searches: its plugin may have fallen silent since, and
/// filter was perhaps not asked, as is in a new leader's first minute.
///
/// # Errors
/// It does not take the pod.
fn takes<'i>(index: &Index, view: &'i NodeView, pod: &LivePod) -> Result<&'i Occupancy, NodeRefusal> {
    if let Some(models) = index.device_models(pod.device_model.as_deref())? {
        view.is_of(&models)?;
    }
    let occupancy = view.takes_pods()?;
    index.has_a_living_plugin(view)?;
    Ok(occupancy)
}

/// What an earlier bind of the pod reserved on the node, if its devices are the same and still healthy, no other leader has given them to
/// another pod meanwhile, and it is known what the node's pods hold.
fn join(index: &mut Index, uid: &str, node: &str) -> Option<Reserved> {
    let reservation = index.reservations_of(uid)?.get(node)?;
    let is_usable = index.view(node).is_some_and(|view| view.can_still_give(reservation));
    let reservation = if is_usable { index.join_reservation(uid, node)? } else { return None };
    reached("extender: reservation joined by a repeated bind");
    Some((reservation.annotations, reservation.id))
}

/// Reserves the placement, which was found for a node with this occupancy.
fn keep(
    index: &mut Index,
    BindingRequest { uid, node, .. }: &BindingRequest,
    placement: &Placement,
    occupancy: &Occupancy,
    now: SystemTime,
) -> Reserved {
    let topology = occupancy.topology();
    let cores = placement.hardware(topology);
    let allocation = placement.allocation(node, topology);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let annotations = Arc::new(allocation.annotations(false, &now.to_string()));
    let id = match index.join_reservation(uid, node) {
        Some(before) => {
            reached("extender: reservation replaced");
            index.reserve_instead(uid, node, cores, annotations.clone());
            before.id
        }
        None => index.reserve(uid, node, cores, annotations.clone()),
    };
    (annotations, id)
}

impl Binder {
    /// A bind ended without binding the pod.
    fn release(&self, binding: &BindingRequest, id: ReservationId) {
        self.cluster.write(|index| index.release(&binding.uid, &binding.node, id));
    }

    /// Releases, after a while, a reservation that the watch never removes: its Binding can no longer be carried out.
    fn release_when_clear(&self, binding: BindingRequest, id: ReservationId) {
        let binder = self.clone();
        let wait = async move {
            let is_kept =
                || binder.cluster.read(|index| index.has_reservation(&binding.uid, &binding.node, id));
            let mut unread = 0;
            loop {
                sleep(binder.timeouts.binding).await;
                if !is_kept() {
                    return;
                }
                let until = Instant::now() + binder.timeouts.bind;
                let holds = match read(&binder.client, &binding.namespace, &binding.name, until).await {
                    Ok(Some(LivePod { node: Some(node), pod, .. })) => {
                        node == binding.node && *pod.uid == *binding.uid && !pod.terminal
                    }
                    Ok(_) => false,
                    Err(_) if unread < MOST_UNREAD => {
                        unread += 1;
                        true
                    }
                    // A list that begins now removes the reservation of a pod that is bound or gone; what is left is of one that waits.
                    Err(_) => {
                        reached("extender: pods listed for a pod that cannot be read");
                        binder.cluster.relist.pods_are_listed().await;
                        if !is_kept() {
                            return;
                        }
                        false
                    }
                };
                if holds {
                    reached("extender: reservation kept for another while");
                } else {
                    reached("extender: reservation of a pod that is not bound here released");
                    info!("reservation released: the pod is not bound here");
                    return binder.release(&binding, id);
                }
            }
        };
        let wait = self.end.clone().run_until_cancelled_owned(wait.in_current_span());
        drop(self.system.spawn(wait));
    }
}
