//! What is kept of pods and nodes: the parts that decide. Called by the watches and by bind.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::names::{
    DEVICE_MODEL, INSTANCE_TYPE_LABEL, NEURON, NEURONCORE, NEURONDEVICE, NODE_REPORT, POD_ANNOTATIONS,
    RESOURCE_NAMES, Resource,
};
use neuron_core::pod::{self, Amounts, BoundPod, Resources};
use neuron_core::quantity::Quantity;
use neuron_core::record::max_value_bytes;
use runtime::protobuf::text;

use super::messages;
use crate::index::{Advertised, ObservedNode, ObservedPod, Owner};

/// Bytes of the annotation with device models that are kept at most; sixteen of them have fewer.
const MOST_OF_MODELS: usize = 1024;

/// Bytes of an owner's name, kind and UID that are kept at most: as many as a name has.
const MOST_OF_OWNER: usize = 253;

impl From<messages::Pod> for ObservedPod {
    fn from(pod: messages::Pod) -> Self {
        let messages::Pod { metadata, spec, status } = pod;
        let node = (!spec.node_name.is_empty()).then(|| spec.node_name.as_str().into());
        let is_nominated = !status.nominated_node_name.is_empty();
        let status = pod_status(status);
        let is_refused = status.conditions.iter().any(|condition| {
            condition.type_ == "PodScheduled"
                && condition.status == "False"
                && condition.reason.as_deref() == Some("Unschedulable")
        });
        // While pods end for it, what they still hold is no reason to tell.
        let unschedulable = is_refused && !is_nominated;
        #[cfg(planted)]
        let is_deleting = metadata.deletion_timestamp.is_some();
        let messages::ObjectMeta { namespace, name, uid, mut annotations, owner_references, .. } = metadata;
        // Of bound pods nobody asks.
        let owner = if node.is_none() { controller(owner_references).map(Box::new) } else { None };
        let device_model = annotations.remove(DEVICE_MODEL).map(|value| device_models(&text(value)));
        let ours = annotations.into_iter().filter(|(key, _)| POD_ANNOTATIONS.contains(&key.as_str()));
        let annotations: BTreeMap<String, String> = ours
            .map(|(key, value)| {
                let kept = kept(&key, value);
                (key, kept)
            })
            .collect();
        let pod = BoundPod::new(namespace, name, uid, annotations, &pod_spec(spec), Some(&status));
        // Planted: the devices of a pod count as free although its containers still have their grace.
        #[cfg(planted)]
        let pod = BoundPod {
            terminal: pod.terminal || is_deleting && runtime::is_planted("terminating-is-free"),
            ..pod
        };
        ObservedPod { node, unschedulable, device_model, owner, pod: Arc::new(pod) }
    }
}

/// What is kept of the device models: filter reads them as they are written, in which there may be any number of spaces.
fn device_models(written: &str) -> String {
    let mut models = written.split(',').map(str::trim);
    let mut kept = models.next().unwrap_or_default().to_owned();
    for model in models {
        kept.push(',');
        kept.push_str(model);
        // Enough to see that it names too many, or what is no model.
        if kept.len() > MOST_OF_MODELS {
            break;
        }
    }
    kept.truncate(kept.floor_char_boundary(MOST_OF_MODELS));
    kept.shrink_to_fit();
    kept
}

/// The owner that manages the object, if there is one.
fn controller(references: Vec<messages::OwnerReference>) -> Option<Owner> {
    let controller = references.into_iter().find(|reference| reference.controller == Some(true))?;
    let kept = |mut bytes: Vec<u8>| {
        bytes.truncate(MOST_OF_OWNER);
        bytes.shrink_to_fit();
        text(bytes)
    };
    let messages::OwnerReference { kind, name, uid, .. } = controller;
    Some(Owner { kind: kept(kind), name: kept(name), uid: kept(uid) })
}

/// The part of an annotation's value that is kept: enough to see that it is too long.
fn kept(key: &str, mut value: Vec<u8>) -> String {
    value.truncate(max_value_bytes(key) + 1);
    value.shrink_to_fit();
    text(value)
}

impl From<messages::Node> for ObservedNode {
    fn from(node: messages::Node) -> Self {
        let messages::ObjectMeta { name, mut labels, mut annotations, .. } = node.metadata;
        ObservedNode {
            name,
            instance_type: labels.remove(INSTANCE_TYPE_LABEL),
            report: annotations.remove(NODE_REPORT).map(|report| ObservedNode::read_report(&text(report))),
            advertised: advertised(&node.status),
        }
    }
}

fn advertised(status: &messages::NodeStatus) -> Advertised {
    let has = |amounts: &BTreeMap<String, messages::Quantity>, name: &str| {
        amounts.get(name).is_some_and(|amount| Quantity::new(&amount.text).count() != Ok(0))
    };
    let is_allocatable = |resource| {
        let mut names = RESOURCE_NAMES.iter().filter(|name| Resource::named(name) == Some(resource));
        names.any(|name| has(&status.allocatable, name))
    };
    Advertised {
        any: RESOURCE_NAMES.iter().any(|name| has(&status.capacity, name)),
        devices: is_allocatable(Resource::Device),
        cores: is_allocatable(Resource::Core),
    }
}

fn pod_spec(spec: messages::PodSpec) -> pod::PodSpec {
    let messages::PodSpec { containers, node_name, init_containers, priority } = spec;
    pod::PodSpec {
        node_name: (!node_name.is_empty()).then_some(node_name),
        scheduler_name: None,
        priority,
        init_containers: init_containers.into_iter().map(container).collect(),
        containers: containers.into_iter().map(container).collect(),
    }
}

fn container(container: messages::Container) -> pod::Container {
    let messages::Container { name, resources, restart_policy } = container;
    let amount = |resource: &str| resources.limits.get(resource).map(|amount| Quantity::new(&amount.text));
    let limits = Amounts {
        neuron: amount(NEURON),
        neuroncore: amount(NEURONCORE),
        neurondevice: amount(NEURONDEVICE),
    };
    pod::Container { name, restart_policy, resources: Resources { limits, requests: Amounts::default() } }
}

fn pod_status(status: messages::PodStatus) -> pod::PodStatus {
    let set = |bytes: Vec<u8>| (!bytes.is_empty()).then(|| text(bytes));
    let conditions = status.conditions.into_iter().map(|condition| pod::PodCondition {
        type_: text(condition.kind),
        status: text(condition.status),
        last_transition_time: condition.last_transition_time.and_then(messages::Time::text),
        reason: set(condition.reason),
    });
    pod::PodStatus {
        phase: set(status.phase),
        conditions: conditions.collect(),
        extended_resource_claim_status: status.extended_resource_claim_status.map(claim_status),
        ..pod::PodStatus::default()
    }
}

fn claim_status(status: messages::ExtendedResourceClaimStatus) -> pod::ExtendedResourceClaimStatus {
    let mappings = status.request_mappings.into_iter().map(|mapping| pod::RequestMapping {
        container_name: text(mapping.container_name),
        resource_name: text(mapping.resource_name),
    });
    pod::ExtendedResourceClaimStatus {
        request_mappings: mappings.collect(),
        resource_claim_name: text(status.resource_claim_name),
    }
}

#[cfg(test)]
mod tests {
    use neuron_core::request::Role;
    use prost::Message;

    use super::*;

    /// A field of a message on the wire: its number, that so many bytes follow, and the bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        // A number above 15 takes two bytes.
        let mut written =
            if number < 16 { vec![number << 3 | 2] } else { vec![number << 3 | 0x82, number >> 4] };
        written.push(u8::try_from(bytes.len()).unwrap());
        written.extend_from_slice(bytes);
        written
    }

    fn entry(name: &str, value: &[u8]) -> Vec<u8> {
        [field(1, name.as_bytes()), field(2, value)].concat()
    }

    #[test]
    fn of_device_models_what_filter_reads_is_kept_and_no_more_than_sixteen_need() {
        let padded = format!("{}Inferentia2 ,\n{} trn1.32xlarge", " ".repeat(2000), " ".repeat(2000));
        assert_eq!(device_models(&padded), "Inferentia2,trn1.32xlarge");
        for garbage in ["", ",Trainium", "Trainium,", "Inferentia 2"] {
            assert_eq!(device_models(garbage), garbage);
        }
        let long = device_models(&"\u{e4}".repeat(5000));
        assert_eq!(long.len(), MOST_OF_MODELS);
        assert!(device_models(&"Trainium,".repeat(5000)).split(',').count() > 16);
    }

    #[test]
    fn what_decides_is_read_off_the_wire_whatever_else_stands_there() {
        let meta = [
            field(1, b"p"),
            field(3, b"d"),
            field(5, b"u"),
            field(12, &entry("NEURON_DEVS", b"\xff")),
            field(12, &entry("other", b"x")),
            field(17, b"managed"),
        ];
        let limits = field(1, &entry(NEURON, &field(1, b"2")));
        let sidecar = [field(1, b"s"), field(8, &limits), field(24, b"Always")].concat();
        let spec = [field(2, &[field(1, b"c"), field(8, b"")].concat()), field(20, &sidecar)];
        let condition =
            [field(1, b"PodScheduled"), field(2, b"False"), field(4, b""), field(5, b"Unschedulable")];
        // A container's termination message, which the API server keeps whatever it is.
        let terminated = field(8, &field(2, &field(3, &field(4, b"\xff"))));
        let status = [field(1, b"Pending"), field(2, &condition.concat()), terminated];
        let pod = [field(1, &meta.concat()), field(2, &spec.concat()), field(3, &status.concat())].concat();

        let ObservedPod { node, unschedulable, pod, .. } =
            ObservedPod::from(messages::Pod::decode(pod.as_slice()).unwrap());
        assert_eq!((node, unschedulable), (None, true));
        assert_eq!((&*pod.full_name, &*pod.uid), ("d/p", "u"));
        assert_eq!(pod.annotations, BTreeMap::from([("NEURON_DEVS".to_owned(), "\u{fffd}".to_owned())]));
        let [asks] = &pod.request.as_ref().unwrap().containers[..] else { panic!("one container asks") };
        assert_eq!((&*asks.name, asks.role, asks.devices), ("s", Role::Sidecar, 2));
    }

    #[test]
    fn a_pod_that_others_end_for_is_to_be_told_nothing() {
        let condition = messages::PodCondition {
            kind: b"PodScheduled".to_vec(),
            status: b"False".to_vec(),
            reason: b"Unschedulable".to_vec(),
            ..Default::default()
        };
        let unschedulable = |nominated_node_name: &[u8]| {
            let conditions = vec![condition.clone()];
            let nominated_node_name = nominated_node_name.to_vec();
            let status = messages::PodStatus { conditions, nominated_node_name, ..Default::default() };
            // As it is read off the wire.
            let pod = messages::Pod { status, ..Default::default() }.encode_to_vec();
            ObservedPod::from(messages::Pod::decode(pod.as_slice()).unwrap()).unschedulable
        };
        assert!(unschedulable(b""));
        assert!(!unschedulable(b"n1"));
    }

    #[test]
    fn of_owners_the_one_that_manages_the_pod_is_kept() {
        let owner = |name: &str, controller| k8s_pb::apimachinery::pkg::apis::meta::v1::OwnerReference {
            api_version: Some("apps/v1".to_owned()),
            kind: Some("ReplicaSet".to_owned()),
            name: Some(name.to_owned()),
            uid: Some(format!("uid of {name}")),
            controller,
            block_owner_deletion: Some(true),
        };
        let metadata = k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta {
            owner_references: vec![
                owner("none", None),
                owner("other", Some(false)),
                owner("web", Some(true)),
            ],
            ..Default::default()
        };
        let pod = |node: Option<&str>| {
            let spec =
                k8s_pb::api::core::v1::PodSpec { node_name: node.map(str::to_owned), ..Default::default() };
            let metadata = Some(metadata.clone());
            let pod = k8s_pb::api::core::v1::Pod { metadata, spec: Some(spec), ..Default::default() };
            ObservedPod::from(messages::Pod::decode(pod.encode_to_vec().as_slice()).unwrap())
        };
        let Owner { kind, name, uid } = *pod(None).owner.unwrap();
        assert_eq!((&*kind, &*name, &*uid), ("ReplicaSet", "web", "uid of web"));
        assert!(pod(Some("n1")).owner.is_none());
        let metadata = messages::ObjectMeta {
            owner_references: vec![messages::OwnerReference {
                name: vec![0xff; 1_000_000],
                controller: Some(true),
                ..Default::default()
            }],
            ..Default::default()
        };
        let owner = ObservedPod::from(messages::Pod { metadata, ..Default::default() }).owner.unwrap();
        assert!(owner.name.len() < 1024, "{}", owner.name.len());
    }

    #[test]
    fn of_values_that_no_record_has_little_is_kept() {
        let long = |key: &&str| ((*key).to_owned(), vec![b'"'; 250_000]);
        let annotations = POD_ANNOTATIONS.iter().map(long).collect();
        let metadata = messages::ObjectMeta { annotations, ..Default::default() };
        let ObservedPod { pod, .. } = ObservedPod::from(messages::Pod { metadata, ..Default::default() });
        let kept: usize = pod.annotations.values().map(String::capacity).sum();
        assert!(kept < 72 * 1024, "{kept}");
        assert_eq!(pod.record.as_ref().unwrap_err().problem, "it is longer than 65536 bytes");
    }

    #[test]
    fn a_bound_pod_says_where_and_since_when() {
        let condition = messages::PodCondition {
            kind: b"PodScheduled".to_vec(),
            status: b"True".to_vec(),
            last_transition_time: Some(messages::Time { seconds: 1_795_348_800 }),
            ..Default::default()
        };
        let status = messages::PodStatus {
            phase: b"Failed".to_vec(),
            conditions: vec![condition],
            ..Default::default()
        };
        let spec = messages::PodSpec { node_name: "n".to_owned(), ..Default::default() };
        let ObservedPod { node, unschedulable, pod, .. } =
            ObservedPod::from(messages::Pod { spec, status, ..Default::default() });
        assert_eq!((node.as_deref(), unschedulable, pod.terminal), (Some("n"), false, true));
        assert_eq!(pod.scheduled_at.unwrap().to_string(), "2026-11-22T12:00:00Z");
    }

    #[test]
    fn what_a_claim_gives_is_read_off_the_wire() {
        let limits = field(1, &entry(NEURON, &field(1, b"2")));
        let spec = field(2, &[field(1, b"c"), field(8, &limits)].concat());
        let mapping = [field(1, b"c"), field(2, NEURON.as_bytes()), field(3, b"container-0-request-0")];
        let claim = [field(1, &mapping.concat()), field(2, b"p-extended-resources-x")];
        let status = field(18, &claim.concat());
        let pod = [field(1, b""), field(2, &spec), field(3, &status)].concat();
        let ObservedPod { pod, .. } = ObservedPod::from(messages::Pod::decode(pod.as_slice()).unwrap());
        assert!(pod.request.as_ref().unwrap().is_empty());
        assert_eq!(pod.claim.as_ref().unwrap().name, "p-extended-resources-x");
    }

    #[test]
    fn a_node_advertises_what_its_status_has() {
        let advertised = |capacity: &[(&str, &str)], allocatable: &[(&str, &str)]| {
            let amounts = |number, amounts: &[(&str, &str)]| {
                let one =
                    |(name, amount): &(&str, &str)| field(number, &entry(name, &field(1, amount.as_bytes())));
                amounts.iter().flat_map(one).collect::<Vec<u8>>()
            };
            let status = [amounts(1, capacity), amounts(2, allocatable)].concat();
            let node = [field(1, &field(1, b"n")), field(3, &status)].concat();
            let Advertised { any, devices, cores } =
                ObservedNode::from(messages::Node::decode(node.as_slice()).unwrap()).advertised;
            (any, devices, cores)
        };
        let cpu = ("cpu", "4");
        assert_eq!(advertised(&[cpu], &[cpu]), (false, false, false));
        assert_eq!(advertised(&[cpu, (NEURON, "16")], &[cpu, (NEURON, "15")]), (true, true, false));
        assert_eq!(
            advertised(&[(NEURON, "16"), (NEURONCORE, "32")], &[(NEURONCORE, "32")]),
            (true, false, true)
        );
        assert_eq!(advertised(&[(NEURONDEVICE, "1k")], &[(NEURONDEVICE, "1k")]), (true, true, false));
        // All of them unhealthy, or the plugin just gone; and long gone.
        assert_eq!(advertised(&[(NEURON, "16")], &[(NEURON, "0")]), (true, false, false));
        assert_eq!(advertised(&[(NEURON, "0")], &[(NEURON, "0")]), (false, false, false));
    }
}
