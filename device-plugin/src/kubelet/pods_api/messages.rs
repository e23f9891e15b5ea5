//! A pod as kubelet's Pods API has it, with the fields that are used here (k8s.io/api/core/v1/generated.proto and
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto); their numbers never change. Values of annotations and texts of a status may
//! be any bytes.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use kube::core::ObjectMeta;
use neuron_core::names::{NEURON, NEURONCORE, NEURONDEVICE};
use neuron_core::pod::{
    Amounts, Container, ContainerState, ContainerStatus, Details, ExtendedResourceClaimStatus, PodCondition,
    PodSpec, PodStatus, RequestMapping, Resources,
};
use neuron_core::quantity::Quantity;
use prost::Message;
use runtime::protobuf::text;

use super::Pod;

#[derive(Clone, PartialEq, Message)]
pub(super) struct WirePod {
    #[prost(message, required, tag = "1")]
    metadata: WireMeta,
    #[prost(message, required, tag = "2")]
    spec: WireSpec,
    #[prost(message, required, tag = "3")]
    status: WireStatus,
}

#[derive(Clone, PartialEq, Message)]
struct WireMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    resource_version: String,
    #[prost(btree_map = "string, bytes", tag = "12")]
    annotations: BTreeMap<String, Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct WireSpec {
    #[prost(message, repeated, tag = "2")]
    containers: Vec<WireContainer>,
    #[prost(message, repeated, tag = "20")]
    init_containers: Vec<WireContainer>,
}

#[derive(Clone, PartialEq, Message)]
struct WireContainer {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, required, tag = "8")]
    resources: WireResources,
    #[prost(string, optional, tag = "24")]
    restart_policy: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct WireResources {
    #[prost(btree_map = "string, message", tag = "1")]
    limits: BTreeMap<String, WireQuantity>,
}

#[derive(Clone, PartialEq, Message)]
struct WireQuantity {
    /// The amount as in JSON, such as `1` or `2k`.
    #[prost(string, tag = "1")]
    text: String,
}

#[derive(Clone, PartialEq, Message)]
struct WireStatus {
    #[prost(bytes = "vec", tag = "1")]
    phase: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    conditions: Vec<WireCondition>,
    #[prost(message, repeated, tag = "8")]
    container_statuses: Vec<WireContainerStatus>,
    #[prost(message, repeated, tag = "10")]
    init_container_statuses: Vec<WireContainerStatus>,
    #[prost(message, optional, tag = "18")]
    extended_resource_claim_status: Option<WireClaimStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct WireCondition {
    #[prost(bytes = "vec", tag = "1")]
    kind: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    status: Vec<u8>,
    #[prost(message, optional, tag = "4")]
    last_transition_time: Option<WireTime>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireTime {
    /// Since 1970; JSON shows whole seconds.
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct WireContainerStatus {
    #[prost(bytes = "vec", tag = "1")]
    name: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    state: Option<WireState>,
    #[prost(bool, optional, tag = "9")]
    started: Option<bool>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireState {
    #[prost(message, optional, tag = "2")]
    running: Option<WireDetails>,
    #[prost(message, optional, tag = "3")]
    terminated: Option<WireDetails>,
}

#[derive(Clone, Copy, PartialEq, Message)]
struct WireDetails {}

#[derive(Clone, PartialEq, Message)]
struct WireClaimStatus {
    #[prost(message, repeated, tag = "1")]
    request_mappings: Vec<WireMapping>,
    #[prost(bytes = "vec", tag = "2")]
    resource_claim_name: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct WireMapping {
    #[prost(bytes = "vec", tag = "1")]
    container_name: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    resource_name: Vec<u8>,
}

impl WirePod {
    /// Whether it has what every pod has: fields that have moved are empty here.
    pub(super) fn is_whole(&self) -> bool {
        ![&self.metadata.name, &self.metadata.namespace, &self.metadata.uid].into_iter().any(String::is_empty)
    }

    /// The pod as the API server's JSON has it, as far as it is read.
    pub(super) fn into_pod(self) -> Pod {
        let WirePod { metadata, spec, status } = self;
        let annotations = metadata.annotations.into_iter().map(|(key, value)| (key, text(value)));
        let containers =
            |all: Vec<WireContainer>| all.into_iter().map(WireContainer::into_container).collect();
        Pod {
            types: None,
            metadata: ObjectMeta {
                name: Some(metadata.name),
                namespace: Some(metadata.namespace),
                uid: Some(metadata.uid),
                resource_version: Some(metadata.resource_version),
                annotations: Some(annotations.collect()),
                ..ObjectMeta::default()
            },
            spec: PodSpec {
                init_containers: containers(spec.init_containers),
                containers: containers(spec.containers),
                ..PodSpec::default()
            },
            status: Some(status.into_status()),
        }
    }
}

impl WireContainer {
    fn into_container(self) -> Container {
        let WireContainer { name, resources, restart_policy } = self;
        let amount = |name: &str| resources.limits.get(name).map(|amount| Quantity::new(&amount.text));
        let limits = Amounts {
            neuron: amount(NEURON),
            neuroncore: amount(NEURONCORE),
            neurondevice: amount(NEURONDEVICE),
        };
        Container { name, restart_policy, resources: Resources { limits, requests: Amounts::default() } }
    }
}

impl WireStatus {
    fn into_status(self) -> PodStatus {
        let statuses =
            |all: Vec<WireContainerStatus>| all.into_iter().map(WireContainerStatus::into_status).collect();
        let conditions = self.conditions.into_iter().map(|condition| PodCondition {
            type_: text(condition.kind),
            status: text(condition.status),
            last_transition_time: condition.last_transition_time.and_then(WireTime::text),
            reason: None,
        });
        // kubelet writes down a last phase, such as an eviction's, before it kills the containers, and tells the API server after.
        let mut all = self.init_container_statuses.iter().chain(&self.container_statuses);
        let is_running = all.any(|status| status.state.is_some_and(|state| state.running.is_some()));
        let phase = if is_running { b"Running".to_vec() } else { self.phase };
        PodStatus {
            phase: (!phase.is_empty()).then(|| text(phase)),
            conditions: conditions.collect(),
            reason: None,
            init_container_statuses: statuses(self.init_container_statuses),
            container_statuses: statuses(self.container_statuses),
            extended_resource_claim_status: self
                .extended_resource_claim_status
                .map(WireClaimStatus::into_status),
        }
    }
}

impl WireTime {
    /// RFC 3339 in UTC; none for no time, which is written as an empty one.
    fn text(self) -> Option<String> {
        let time = Timestamp::from_second(self.seconds).ok().filter(|_| self.seconds != 0);
        time.map(|time| time.to_string())
    }
}

impl WireContainerStatus {
    fn into_status(self) -> ContainerStatus {
        let details = |wire: Option<WireDetails>| wire.map(|_| Details {});
        let state = self.state.map(|state| ContainerState {
            running: details(state.running),
            terminated: details(state.terminated),
        });
        ContainerStatus { name: text(self.name), container_id: None, started: self.started, state }
    }
}

impl WireClaimStatus {
    fn into_status(self) -> ExtendedResourceClaimStatus {
        let mappings = self.request_mappings.into_iter().map(|mapping| RequestMapping {
            container_name: text(mapping.container_name),
            resource_name: text(mapping.resource_name),
        });
        ExtendedResourceClaimStatus {
            request_mappings: mappings.collect(),
            resource_claim_name: text(self.resource_claim_name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(phase: &str, is_running: bool) -> WirePod {
        let state = WireState { running: is_running.then_some(WireDetails {}), terminated: None };
        let container = WireContainerStatus { name: b"main".to_vec(), state: Some(state), started: None };
        let status = WireStatus {
            phase: phase.as_bytes().to_vec(),
            container_statuses: vec![container],
            ..WireStatus::default()
        };
        let text = str::to_owned;
        let metadata =
            WireMeta { name: text("p"), namespace: text("d"), uid: text("u"), ..WireMeta::default() };
        WirePod { metadata, status, ..WirePod::default() }
    }

    #[test]
    fn a_pod_that_is_evicted_has_not_ended_while_a_container_runs() {
        let phase = |wire: WirePod| wire.into_pod().status.unwrap().phase.unwrap();
        assert_eq!(phase(pod("Failed", true)), "Running");
        assert_eq!(phase(pod("Failed", false)), "Failed");
    }

    #[test]
    fn a_pod_whose_fields_have_moved_is_not_whole() {
        let whole = pod("Running", true);
        assert!(whole.is_whole());
        let moved = WirePod::decode(b"\x2a\x00".as_slice()).unwrap();
        assert!(!moved.is_whole());
    }
}
