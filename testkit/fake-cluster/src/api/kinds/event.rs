//! Events of core/v1 and events.k8s.io/v1 are one collection under two sets of field names; core's are stored.

use std::borrow::Cow;

use serde_json::Value;

use super::table::{Collection, Resource};

/// Fields whose name differs: in core/v1, in events.k8s.io/v1. All others are called the same.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// A stored object under the field names of `resource`.
pub(crate) fn shown<'a>(resource: &Resource, object: &'a Value) -> Cow<'a, Value> {
    if is_renamed(resource) {
        let mut object = object.clone();
        rename(&mut object, |(core, events)| (core, events));
        Cow::Owned(object)
    } else {
        Cow::Borrowed(object)
    }
}

/// A client's object of `resource` under the field names that are stored.
pub(crate) fn stored(resource: &Resource, mut object: Value) -> Value {
    if is_renamed(resource) {
        rename(&mut object, |(core, events)| (events, core));
    }
    object
}

/// Where a field of `resource` (`regarding.name`) stands in the stored object (`involvedObject.name`).
pub(crate) fn stored_path(resource: &Resource, path: &str) -> String {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let renamed = NAMES.iter().find(|(_, events)| is_renamed(resource) && *events == first);
    let first = renamed.map_or(first, |(core, _)| core);
    rest.map_or_else(|| first.to_owned(), |rest| format!("{first}.{rest}"))
}

/// Whether the fields of stored events have other names in `resource`.
pub(crate) fn is_renamed(resource: &Resource) -> bool {
    resource.collection == Collection::Events && !resource.group.is_empty()
}

fn rename(object: &mut Value, from_to: fn((&'static str, &'static str)) -> (&'static str, &'static str)) {
    let Value::Object(fields) = object else { return };
    for (from, to) in NAMES.map(from_to) {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.into(), value);
        }
    }
}
