//! What pods and nodes in the API server's protobuf say of what decides. Called by the watches and by
//! [`crate::binding`].

use neuron_core::names::{INSTANCE_TYPE_LABEL, NEURON, NEURONCORE, NEURONDEVICE, NODE_REPORT};
use neuron_core::pod::{self, Amounts, BoundPod, Resources};
use neuron_core::quantity::Quantity;

use crate::protobuf;
use crate::seen::{SeenNode, SeenPod};

/// The pod as it is kept, whether or not it has to do with Neuron hardware.
pub(crate) fn seen_pod(pod: protobuf::Pod) -> SeenPod {
    let protobuf::Pod { metadata, spec, status } = pod;
    let node = (!spec.node_name.is_empty()).then(|| spec.node_name.clone());
    let status = pod_status(status);
    let unschedulable = status.conditions.iter().any(|condition| {
        condition.type_ == "PodScheduled"
            && condition.status == "False"
            && condition.reason.as_deref() == Some("Unschedulable")
    });
    let protobuf::ObjectMeta { namespace, name, uid, annotations, .. } = metadata;
    let pod = BoundPod::new(namespace, name, uid, annotations, &pod_spec(spec), Some(&status));
    SeenPod { node, unschedulable, pod }
}

/// The node as it is kept.
pub(crate) fn seen_node(node: protobuf::Node) -> SeenNode {
    let protobuf::ObjectMeta { name, mut labels, mut annotations, .. } = node.metadata;
    SeenNode {
        name,
        instance_type: labels.remove(INSTANCE_TYPE_LABEL),
        report: annotations.remove(NODE_REPORT),
    }
}

fn pod_spec(spec: protobuf::PodSpec) -> pod::PodSpec {
    let protobuf::PodSpec { containers, node_name, init_containers } = spec;
    pod::PodSpec {
        node_name: (!node_name.is_empty()).then_some(node_name),
        scheduler_name: None,
        init_containers: init_containers.into_iter().map(container).collect(),
        containers: containers.into_iter().map(container).collect(),
    }
}

fn container(container: protobuf::Container) -> pod::Container {
    let protobuf::Container { name, resources, restart_policy } = container;
    let amount = |resource: &str| resources.limits.get(resource).map(|amount| Quantity::new(&amount.text));
    let limits = Amounts {
        neuron: amount(NEURON),
        neuroncore: amount(NEURONCORE),
        neurondevice: amount(NEURONDEVICE),
    };
    pod::Container { name, restart_policy, resources: Resources { limits, requests: Amounts::default() } }
}

fn pod_status(status: protobuf::PodStatus) -> pod::PodStatus {
    let set = |text: String| (!text.is_empty()).then_some(text);
    let conditions = status.conditions.into_iter().map(|condition| pod::PodCondition {
        type_: condition.kind,
        status: condition.status,
        last_transition_time: condition.last_transition_time.and_then(protobuf::Time::text),
        reason: set(condition.reason),
    });
    pod::PodStatus { phase: set(status.phase), conditions: conditions.collect(), ..pod::PodStatus::default() }
}
