//! The parts of a Pod that this project reads, and nothing else; fields are named as in the Kubernetes API. The
//! extender fills them from protobuf, the device plugin makes a Kubernetes type of them, with the metadata that it
//! needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::bounded::{self, LABEL, Listed, QUALIFIED, SUBDOMAIN};
use crate::claim::Claim;
use crate::names;
use crate::quantity::Quantity;
use crate::record::{Allocation, RecordError, Recorded};
use crate::request::{PodRequest, RequestError};

/// A pod's `spec`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node that the pod is bound to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// The scheduler that is to bind the pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_name: Option<String>,
    /// How important the pod is, as its PriorityClass says; 0 without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<i32>,
    /// Ordinary init containers and sidecars, in the order in which kubelet starts them.
    #[serde(deserialize_with = "bounded::list", skip_serializing_if = "Vec::is_empty")]
    pub init_containers: Vec<Container>,
    /// App containers.
    #[serde(deserialize_with = "bounded::list")]
    pub containers: Vec<Container>,
}

/// One container of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Unique in the pod.
    #[serde(deserialize_with = "bounded::text::<_, LABEL>")]
    pub name: String,
    /// `Always` makes an init container a sidecar.
    #[serde(deserialize_with = "bounded::text_or_null::<_, LABEL>", skip_serializing_if = "Option::is_none")]
    pub restart_policy: Option<String>,
    /// Limits and requests.
    pub resources: Resources,
}

/// More than a pod in the API server has: etcd takes 1.5 MiB of an object, and the shortest container has some 58 bytes there. The device
/// plugin reads its node's pods by this type, and no author's pod may keep it from the others. Of those that ask for Neuron hardware far
/// fewer are placed ([`crate::placement::MAX_CONTAINERS`]), which is a refusal and says so.
impl Listed for Container {
    const MOST: usize = 32_768;
    const WHAT: &'static str = "containers";
}

/// A container's limits and requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    /// How much kubelet gives, which decides for extended resources.
    pub limits: Amounts,
    /// What the pod requests: for extended resources the limits again, which the API server validates.
    pub requests: Amounts,
}

/// Amounts of the Neuron resources; others are not kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    /// Number of devices.
    #[serde(rename = "aws.amazon.com/neuron", skip_serializing_if = "Option::is_none")]
    pub neuron: Option<Quantity>,
    /// Number of logical cores.
    #[serde(rename = "aws.amazon.com/neuroncore", skip_serializing_if = "Option::is_none")]
    pub neuroncore: Option<Quantity>,
    /// Number of devices under their old name.
    #[serde(rename = "aws.amazon.com/neurondevice", skip_serializing_if = "Option::is_none")]
    pub neurondevice: Option<Quantity>,
}

/// A pod's `status`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Conditions, such as `PodScheduled`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PodCondition>,
    /// Why the pod is in this phase, such as `UnexpectedAdmissionError`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Statuses of init containers and sidecars.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// Statuses of app containers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub container_statuses: Vec<ContainerStatus>,
    /// What the pod gets from a ResourceClaim instead of device plugins, as kube-scheduler writes it ([`Claim`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

/// What a ResourceClaim gives a pod, whatever the resource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// Which containers get which resources; the API server takes no empty list.
    #[serde(deserialize_with = "bounded::list")]
    pub request_mappings: Vec<RequestMapping>,
    /// The ResourceClaim's name, in the pod's namespace.
    #[serde(deserialize_with = "bounded::text::<_, SUBDOMAIN>")]
    pub resource_claim_name: String,
}

/// One container's resource that a ResourceClaim gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RequestMapping {
    /// The container's name.
    #[serde(deserialize_with = "bounded::text::<_, LABEL>")]
    pub container_name: String,
    /// The resource's full name.
    #[serde(deserialize_with = "bounded::text::<_, QUALIFIED>")]
    pub resource_name: String,
}

impl Listed for RequestMapping {
    const MOST: usize = Container::MOST;
    const WHAT: &'static str = "request mappings";
}

/// One condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// `PodScheduled`, `Ready` and so on.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// When the status last changed, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<String>,
    /// Why, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// One container's status.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: String,
    /// The id of its present or last run, such as `containerd://..`; none before the first.
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    pub container_id: Option<String>,
    /// Whether it has started, for app containers and sidecars also whether its startup probe has succeeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<bool>,
    /// What it does now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<ContainerState>,
}

/// What a container does, as far as it is read: waiting is neither.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// It runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running: Option<Details>,
    /// It has run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminated: Option<Details>,
}

/// Details that nobody reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {}

impl ContainerStatus {
    /// Whether the container runs now.
    pub fn is_running(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.running.is_some())
    }

    /// Whether the container runs or has run, which it does only once it has its devices.
    pub fn has_run(&self) -> bool {
        self.state.as_ref().is_some_and(|state| state.running.is_some() || state.terminated.is_some())
    }
}

/// What [`crate::holders`] needs of a pod that is bound to the node in question. The extender keeps one for each pod with devices, so what
/// few of them have is boxed.
#[derive(Clone, Debug, PartialEq)]
pub struct BoundPod {
    /// `metadata.uid`.
    pub uid: Arc<str>,
    /// `metadata.namespace` and `metadata.name`, as `namespace/name`: neither has a slash.
    pub full_name: Box<str>,
    /// What it requests of the device plugin, or why that cannot be read.
    pub request: Result<PodRequest, Box<RequestError>>,
    /// What it gets from a ResourceClaim instead.
    pub claim: Option<Box<Claim>>,
    /// Its annotations of this project and of AWS' extension; others are not kept.
    pub annotations: BTreeMap<String, String>,
    /// What the annotations record, read once: who holds what is settled anew at every change of the node's pods.
    pub record: Result<Option<Recorded>, Box<RecordError>>,
    /// When it was bound: the last transition of PodScheduled.
    pub scheduled_at: Option<Timestamp>,
    /// Whether its phase is `Succeeded` or `Failed`, so that it holds nothing.
    pub terminal: bool,
    /// How important it is; 0 without a PriorityClass.
    pub priority: i32,
}

impl BoundPod {
    /// Keeps what decides about a pod, of `annotations` only this project's and AWS'.
    pub fn new(
        namespace: impl AsRef<str>,
        name: impl AsRef<str>,
        uid: impl AsRef<str>,
        mut annotations: BTreeMap<String, String>,
        spec: &PodSpec,
        status: Option<&PodStatus>,
    ) -> Self {
        let scheduled = status.and_then(|status| {
            status
                .conditions
                .iter()
                .find(|condition| condition.type_ == "PodScheduled" && condition.status == "True")
        });
        let phase = status.and_then(|status| status.phase.as_deref());
        annotations.retain(|key, _| names::POD_ANNOTATIONS.contains(&key.as_str()));
        let record = Allocation::parse(&annotations);
        let claim = status.and_then(|status| status.extended_resource_claim_status.as_ref());
        let claim = claim.and_then(Claim::of).and_then(|claim| match &record {
            Ok(Some(recorded)) if spec.node_name.is_some() => claim.beside(recorded),
            _ => Some(claim),
        });
        let request = PodRequest::of(spec).map(|request| request.without(claim.as_ref()));
        let record = record.map(|record| match &request {
            Ok(request) => record.map(|record| record.sharing_names(request)),
            Err(_) => record,
        });
        BoundPod {
            uid: uid.as_ref().into(),
            full_name: format!("{}/{}", namespace.as_ref(), name.as_ref()).into(),
            request: request.map_err(Box::new),
            claim: claim.map(Box::new),
            record: record.map_err(Box::new),
            annotations,
            scheduled_at: scheduled
                .and_then(|condition| condition.last_transition_time.as_deref()?.parse().ok()),
            terminal: matches!(phase, Some("Succeeded" | "Failed")),
            priority: spec.priority.unwrap_or_default(),
        }
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> &str {
        self.names().0
    }

    /// `metadata.name`.
    pub fn name(&self) -> &str {
        self.names().1
    }

    fn names(&self) -> (&str, &str) {
        self.full_name.split_once('/').unwrap_or(("", &self.full_name))
    }

    /// Has a record that names this node share its name: of many pods of a node it is in memory once.
    pub fn share_node(&mut self, node: &Arc<str>) {
        if let Ok(Some(Recorded::Ours(allocation))) = &mut self.record
            && allocation.node == *node
        {
            Arc::make_mut(allocation).node = Arc::clone(node);
        }
    }
}
