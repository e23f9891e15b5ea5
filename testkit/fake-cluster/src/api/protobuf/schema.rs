//! The fields of pods, nodes and Statuses that are answered, by their numbers (k8s.io/api/core/v1/generated.proto and
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto). Nodes are whole; a pod's volumes, probes and affinity are left
//! out.

/// The fields of a message: the name in JSON, the number, and what stands there. A JSON array is a repeated field.
pub(super) type Fields = &'static [(&'static str, u32, Kind)];

/// What stands in a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Text,
    /// A whole number.
    Number,
    /// `true` or `false`.
    Flag,
    /// RFC 3339 in JSON, a message with the seconds since 1970 here.
    Time,
    /// Text or a number in JSON, a message with the text here.
    Quantity,
    /// Any JSON, a message with its bytes here.
    Json,
    /// Texts by their names.
    Texts,
    /// Quantities by their names.
    Quantities,
    Message(Fields),
}

use Kind::{Flag, Json, Message, Number, Quantities, Text, Texts, Time};

/// The fields of an object of this kind; `None` if it is not answered in protobuf.
pub(super) fn of(kind: &str) -> Option<Fields> {
    match kind {
        "Pod" => Some(POD),
        "PodList" => Some(&[("metadata", 1, Message(LIST_META)), ("items", 2, Message(POD))]),
        "Node" => Some(NODE),
        "NodeList" => Some(&[("metadata", 1, Message(LIST_META)), ("items", 2, Message(NODE))]),
        "Status" => Some(STATUS),
        _ => None,
    }
}

const LIST_META: Fields = &[("resourceVersion", 2, Text), ("continue", 3, Text)];

const STATUS: Fields = &[("status", 2, Text), ("message", 3, Text), ("reason", 4, Text), ("code", 6, Number)];

const META: Fields = &[
    ("name", 1, Text),
    ("generateName", 2, Text),
    ("namespace", 3, Text),
    ("uid", 5, Text),
    ("resourceVersion", 6, Text),
    ("generation", 7, Number),
    ("creationTimestamp", 8, Time),
    ("deletionTimestamp", 9, Time),
    ("deletionGracePeriodSeconds", 10, Number),
    ("labels", 11, Texts),
    ("annotations", 12, Texts),
    ("ownerReferences", 13, Message(OWNER)),
    ("finalizers", 14, Text),
    ("managedFields", 17, Message(MANAGED_FIELDS)),
];

const OWNER: Fields = &[
    ("kind", 1, Text),
    ("name", 3, Text),
    ("uid", 4, Text),
    ("apiVersion", 5, Text),
    ("controller", 6, Flag),
    ("blockOwnerDeletion", 7, Flag),
];

const MANAGED_FIELDS: Fields = &[
    ("manager", 1, Text),
    ("operation", 2, Text),
    ("apiVersion", 3, Text),
    ("time", 4, Time),
    ("fieldsType", 6, Text),
    ("fieldsV1", 7, Json),
    ("subresource", 8, Text),
];

const NODE: Fields =
    &[("metadata", 1, Message(META)), ("spec", 2, Message(NODE_SPEC)), ("status", 3, Message(NODE_STATUS))];

const NODE_SPEC: Fields = &[
    ("podCIDR", 1, Text),
    ("providerID", 3, Text),
    ("unschedulable", 4, Flag),
    (
        "taints",
        5,
        Message(&[("key", 1, Text), ("value", 2, Text), ("effect", 3, Text), ("timeAdded", 4, Time)]),
    ),
    ("podCIDRs", 7, Text),
];

const NODE_STATUS: Fields = &[
    ("capacity", 1, Quantities),
    ("allocatable", 2, Quantities),
    ("phase", 3, Text),
    ("conditions", 4, Message(NODE_CONDITION)),
    ("addresses", 5, Message(&[("type", 1, Text), ("address", 2, Text)])),
    ("daemonEndpoints", 6, Message(&[("kubeletEndpoint", 1, Message(&[("Port", 1, Number)]))])),
    ("nodeInfo", 7, Message(NODE_INFO)),
    ("images", 8, Message(&[("names", 1, Text), ("sizeBytes", 2, Number)])),
    ("volumesInUse", 9, Text),
    ("volumesAttached", 10, Message(&[("name", 1, Text), ("devicePath", 2, Text)])),
    ("runtimeHandlers", 12, Message(RUNTIME_HANDLER)),
    ("features", 13, Message(&[("supplementalGroupsPolicy", 1, Flag)])),
];

const NODE_CONDITION: Fields = &[
    ("type", 1, Text),
    ("status", 2, Text),
    ("lastHeartbeatTime", 3, Time),
    ("lastTransitionTime", 4, Time),
    ("reason", 5, Text),
    ("message", 6, Text),
];

const NODE_INFO: Fields = &[
    ("machineID", 1, Text),
    ("systemUUID", 2, Text),
    ("bootID", 3, Text),
    ("kernelVersion", 4, Text),
    ("osImage", 5, Text),
    ("containerRuntimeVersion", 6, Text),
    ("kubeletVersion", 7, Text),
    ("kubeProxyVersion", 8, Text),
    ("operatingSystem", 9, Text),
    ("architecture", 10, Text),
    ("swap", 11, Message(&[("capacity", 1, Number)])),
];

const RUNTIME_HANDLER: Fields = &[
    ("name", 1, Text),
    ("features", 2, Message(&[("recursiveReadOnlyMounts", 1, Flag), ("userNamespaces", 2, Flag)])),
];

const POD: Fields =
    &[("metadata", 1, Message(META)), ("spec", 2, Message(POD_SPEC)), ("status", 3, Message(POD_STATUS))];

const POD_SPEC: Fields = &[
    ("containers", 2, Message(CONTAINER)),
    ("restartPolicy", 3, Text),
    ("terminationGracePeriodSeconds", 4, Number),
    ("dnsPolicy", 6, Text),
    ("nodeSelector", 7, Texts),
    ("serviceAccountName", 8, Text),
    ("nodeName", 10, Text),
    ("hostNetwork", 11, Flag),
    ("securityContext", 14, Message(SECURITY_CONTEXT)),
    ("schedulerName", 19, Text),
    ("initContainers", 20, Message(CONTAINER)),
    ("tolerations", 22, Message(TOLERATION)),
    ("priorityClassName", 24, Text),
    ("priority", 25, Number),
    ("schedulingGates", 38, Message(&[("name", 1, Text)])),
];

const SECURITY_CONTEXT: Fields =
    &[("runAsUser", 2, Number), ("runAsNonRoot", 3, Flag), ("fsGroup", 5, Number), ("runAsGroup", 6, Number)];

const CONTAINER: Fields = &[
    ("name", 1, Text),
    ("image", 2, Text),
    ("command", 3, Text),
    ("args", 4, Text),
    ("workingDir", 5, Text),
    ("env", 7, Message(&[("name", 1, Text), ("value", 2, Text)])),
    ("resources", 8, Message(&[("limits", 1, Quantities), ("requests", 2, Quantities)])),
    ("terminationMessagePath", 13, Text),
    ("imagePullPolicy", 14, Text),
    ("terminationMessagePolicy", 20, Text),
    ("restartPolicy", 24, Text),
];

const TOLERATION: Fields = &[
    ("key", 1, Text),
    ("operator", 2, Text),
    ("value", 3, Text),
    ("effect", 4, Text),
    ("tolerationSeconds", 5, Number),
];

const POD_STATUS: Fields = &[
    ("phase", 1, Text),
    ("conditions", 2, Message(POD_CONDITION)),
    ("message", 3, Text),
    ("reason", 4, Text),
    ("hostIP", 5, Text),
    ("podIP", 6, Text),
    ("startTime", 7, Time),
    ("containerStatuses", 8, Message(CONTAINER_STATUS)),
    ("qosClass", 9, Text),
    ("initContainerStatuses", 10, Message(CONTAINER_STATUS)),
    ("nominatedNodeName", 11, Text),
    ("extendedResourceClaimStatus", 18, Message(EXTENDED_RESOURCE_CLAIM_STATUS)),
];

const EXTENDED_RESOURCE_CLAIM_STATUS: Fields = &[
    (
        "requestMappings",
        1,
        Message(&[("containerName", 1, Text), ("resourceName", 2, Text), ("requestName", 3, Text)]),
    ),
    ("resourceClaimName", 2, Text),
];

const POD_CONDITION: Fields = &[
    ("type", 1, Text),
    ("status", 2, Text),
    ("lastProbeTime", 3, Time),
    ("lastTransitionTime", 4, Time),
    ("reason", 5, Text),
    ("message", 6, Text),
];

const CONTAINER_STATUS: Fields = &[
    ("name", 1, Text),
    ("state", 2, Message(CONTAINER_STATE)),
    ("lastState", 3, Message(CONTAINER_STATE)),
    ("ready", 4, Flag),
    ("restartCount", 5, Number),
    ("image", 6, Text),
    ("imageID", 7, Text),
    ("containerID", 8, Text),
    ("started", 9, Flag),
    ("allocatedResourcesStatus", 14, Message(RESOURCE_STATUS)),
];

const RESOURCE_STATUS: Fields =
    &[("name", 1, Text), ("resources", 2, Message(&[("resourceID", 1, Text), ("health", 2, Text)]))];

const CONTAINER_STATE: Fields = &[
    ("waiting", 1, Message(&[("reason", 1, Text), ("message", 2, Text)])),
    ("running", 2, Message(&[("startedAt", 1, Time)])),
    ("terminated", 3, Message(TERMINATED)),
];

const TERMINATED: Fields = &[
    ("exitCode", 1, Number),
    ("signal", 2, Number),
    ("reason", 3, Text),
    ("message", 4, Text),
    ("startedAt", 5, Time),
    ("finishedAt", 6, Time),
    ("containerID", 7, Text),
];
