//! The fields of pods, nodes and Statuses that are answered, by their numbers (k8s.io/api/core/v1/generated.proto and
//! k8s.io/apimachinery/pkg/apis/meta/v1/generated.proto): what Neuron's components read. Others are left out.

/// The fields of a message: the name in JSON, the number, and what stands there. A JSON array is a repeated field.
pub(super) type Fields = &'static [(&'static str, u32, Kind)];

/// What stands in a field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    /// Text.
    Text,
    /// A whole number.
    Number,
    /// RFC 3339 in JSON, a message with the seconds since 1970 here.
    Time,
    /// Text or a number in JSON, a message with the text here.
    Quantity,
    /// Texts by their names.
    Texts,
    /// Quantities by their names.
    Quantities,
    /// Another message.
    Message(Fields),
}

use Kind::{Message, Number, Quantities, Text, Texts, Time};

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
    ("namespace", 3, Text),
    ("uid", 5, Text),
    ("resourceVersion", 6, Text),
    ("generation", 7, Number),
    ("creationTimestamp", 8, Time),
    ("deletionTimestamp", 9, Time),
    ("labels", 11, Texts),
    ("annotations", 12, Texts),
];

const NODE: Fields = &[("metadata", 1, Message(META))];

const POD: Fields =
    &[("metadata", 1, Message(META)), ("spec", 2, Message(POD_SPEC)), ("status", 3, Message(POD_STATUS))];

const POD_SPEC: Fields = &[
    ("containers", 2, Message(CONTAINER)),
    ("nodeName", 10, Text),
    ("schedulerName", 19, Text),
    ("initContainers", 20, Message(CONTAINER)),
];

const CONTAINER: Fields = &[
    ("name", 1, Text),
    ("image", 2, Text),
    ("resources", 8, Message(&[("limits", 1, Quantities), ("requests", 2, Quantities)])),
    ("restartPolicy", 24, Text),
];

const POD_STATUS: Fields =
    &[("phase", 1, Text), ("conditions", 2, Message(CONDITION)), ("message", 3, Text), ("reason", 4, Text)];

const CONDITION: Fields = &[
    ("type", 1, Text),
    ("status", 2, Text),
    ("lastTransitionTime", 4, Time),
    ("reason", 5, Text),
    ("message", 6, Text),
];
