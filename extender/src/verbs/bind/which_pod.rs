//! Which pod a bind is about, and whether it may be bound where kube-scheduler wants it. Called by the binder.

use std::sync::Arc;

use neuron_core::pod::BoundPod;
use runtime::reached;
use tokio::time::Instant;

use super::binding::{LivePod, read};
use super::{BindError, Binder, Bound, unknown_node};
use crate::metrics::BindPart;
use crate::wire::BindArgs;

impl Binder {
    /// Whether filter has said lately that the node takes the pod. What an earlier bind has reserved for it there was admitted then:
    /// kube-scheduler repeats a bind whose answer it has lost.
    pub(super) fn is_admitted(&self, args: &BindArgs) -> bool {
        let BindArgs { pod_uid: uid, node, .. } = args;
        let (number, is_reserved) = self.cluster.read(|index| {
            let number = index.view(node).map(|view| view.number);
            (number, index.reservations_of(uid).is_some_and(|nodes| nodes.contains_key(node)))
        });
        is_reserved || number.is_some_and(|number| self.admitted.has(uid, number))
    }

    /// Whether the node may have the pod, if a ResourceClaim gives it anything.
    pub(super) fn admits_claim(&self, pod: &BoundPod, node: &str) -> Result<(), BindError> {
        if pod.claim.is_none() {
            return Ok(());
        }
        self.cluster.read(|index| {
            let view = index.view(node).ok_or_else(|| unknown_node(node))?;
            view.admits_claim(pod.claim.as_deref())
                .inspect_err(|_| reached("extender: pod with a claim refused at its bind"))?;
            Ok(())
        })
    }

    /// The pod as the watch shows it. None if it does not, or may lag: a node without what the pod asks for gets it only if
    /// kube-scheduler has just written to the pod that a ResourceClaim gives it.
    pub(super) fn observed_pod(&self, args: &BindArgs) -> Option<LivePod> {
        self.cluster.read(|index| {
            let (pod, node) = index.pod(&args.pod_uid)?;
            let is_requested = pod.namespace() == args.pod_namespace && pod.name() == args.pod_name;
            let advertises = |request| index.view(&args.node).is_none_or(|view| view.advertises(request));
            let is_current = node.is_some() || pod.request.as_ref().is_ok_and(advertises);
            (is_requested && is_current).then(|| LivePod {
                node: node.map(str::to_owned),
                device_model: index.device_model_of(&pod.uid).map(str::to_owned),
                pod: Arc::clone(pod),
            })
        })
    }

    /// The pod as the API server has it.
    pub(super) async fn read_pod(&self, args: &BindArgs, until: Instant) -> Result<LivePod, BindError> {
        reached("extender: pod read before its bind");
        let read = read(&self.client, &args.pod_namespace, &args.pod_name, until);
        match self.timed(BindPart::Pod, read).await {
            Ok(Some(live)) if *live.pod.uid == *args.pod_uid => Ok(live),
            Ok(Some(live)) => {
                reached("extender: pod replaced before its bind");
                Err(BindError::Replaced {
                    requested: args.pod_uid.clone(),
                    found: (*live.pod.uid).to_owned(),
                })
            }
            Ok(None) => {
                reached("extender: pod gone before its bind");
                Err(BindError::Gone)
            }
            Err(reason) => {
                reached("extender: pod not readable before its bind");
                Err(BindError::NotRead(reason))
            }
        }
    }

    /// The answer for a pod that is already bound to `node`.
    pub(super) fn bound_before(
        &self,
        pod: &BoundPod,
        node: &str,
        requested: &str,
    ) -> Result<Bound, BindError> {
        if node != requested {
            reached("extender: pod bound elsewhere");
            return Err(BindError::BoundElsewhere { node: node.to_owned() });
        }
        if pod.request.as_ref().is_ok_and(|request| request.is_empty()) {
            return Ok(Bound::WithoutDevices);
        }
        let counts = self.cluster.read(|index| index.view(node).is_some_and(|view| view.has_record_of(pod)));
        if counts {
            reached("extender: pod bound here already");
            Ok(Bound::Already)
        } else {
            reached("extender: pod bound without a record");
            Err(BindError::BoundWithoutRecord)
        }
    }
}
