//! What a bind reserves until the watch shows its pod, and when that is let go. Called by the binder.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use neuron_core::pod::BoundPod;
use runtime::reached;
use tokio::time::{Instant, sleep};
use tracing::{Instrument as _, info};

use super::binding::{BindingRequest, LivePod, read};
use super::{BindError, Binder, unknown_node};
use crate::index::Index;

/// Chooses and reserves, or takes what an earlier bind of the same pod reserved on the node.
pub(super) fn reserve(
    index: &mut Index,
    pod: &BoundPod,
    binding: &BindingRequest,
    now: SystemTime,
) -> Result<Arc<BTreeMap<String, String>>, BindError> {
    if let Some(reservation) = index.join_reservation(&binding.uid, &binding.node) {
        reached("extender: reservation joined by a repeated bind");
        return Ok(reservation.annotations);
    }
    let request = pod.request.as_ref().map_err(Clone::clone)?;
    let view = index.view(&binding.node).ok_or_else(|| unknown_node(&binding.node))?;
    let placed = view.place(request).inspect_err(|_| reached("extender: pod refused at its bind"));
    let (placement, occupancy) = placed?;
    let topology = occupancy.topology();
    let cores = placement.hardware(topology);
    let allocation = placement.allocation(&binding.node, topology);
    let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let annotations = Arc::new(allocation.annotations(false, &now.to_string()));
    index.reserve(&binding.uid, &binding.node, cores, annotations.clone());
    Ok(annotations)
}

impl Binder {
    /// A bind ended without binding the pod.
    pub(super) fn release(&self, binding: &BindingRequest) {
        self.cluster.write(|index| index.release(&binding.uid, &binding.node));
    }

    /// Releases, after a while, a reservation that the watch never removes: its Binding can no longer be carried out, or
    /// the pod came and went while the watch was disconnected.
    pub(super) fn release_if_unused(&self, binding: BindingRequest) {
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
                if holds {
                    reached("extender: reservation kept for another while");
                } else {
                    reached("extender: reservation of a pod that is not bound here released");
                    info!("reservation released: the pod is not bound here");
                    return binder.release(&binding);
                }
            }
        };
        let wait = self.end.clone().run_until_cancelled_owned(wait.in_current_span());
        drop(self.system.spawn(wait));
    }
}
