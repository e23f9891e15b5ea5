//! The four kinds of PATCH: JSON patch, merge patch, strategic merge patch and server-side apply.

use serde_json::{Map, Value};

use crate::api::error::ApiError;
use crate::api::object::as_map;

/// How a patch is to be read, by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchKind {
    Json,
    Merge,
    Strategic,
    /// Merged like a strategic patch; creates a missing object. Field ownership is not kept.
    Apply,
}

impl PatchKind {
    /// 415 for any other content type.
    pub(crate) fn of(content_type: &str) -> Result<Self, ApiError> {
        match content_type.split(';').next().unwrap_or_default().trim() {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            other => Err(ApiError::unsupported_media_type(other)),
        }
    }

    /// The object with the patch applied.
    pub(crate) fn apply(self, mut object: Value, patch: Value) -> Result<Value, ApiError> {
        match self {
            Self::Json => {
                let patch: json_patch::Patch = serde_json::from_value(patch)
                    .map_err(|error| ApiError::bad_request(error.to_string()))?;
                json_patch::patch(&mut object, &patch)
                    .map_err(|error| ApiError::unprocessable(error.to_string()))?;
            }
            Self::Merge => json_patch::merge(&mut object, &patch),
            Self::Strategic | Self::Apply => merge_strategic(&mut object, patch),
        }
        Ok(object)
    }
}

/// The field that tells the elements of a list apart, for lists that are merged element by element: `patchMergeKey` of
/// Kubernetes' types. Container statuses have none and are replaced as a whole.
fn merge_key(list: &str) -> Option<&'static str> {
    match list {
        "conditions" | "addresses" => Some("type"),
        "containers" | "initContainers" | "env" | "volumes" => Some("name"),
        "taints" => Some("key"),
        "ownerReferences" => Some("uid"),
        _ => None,
    }
}

fn merge_strategic(target: &mut Value, patch: Value) {
    let Value::Object(patch) = patch else {
        *target = patch;
        return;
    };
    if patch.get("$patch").and_then(Value::as_str) == Some("replace") {
        *target = Value::Object(without_directives(patch));
        return;
    }
    let target = as_map(target);
    for (field, value) in without_directives(patch) {
        match (merge_key(&field), value) {
            (_, Value::Null) => drop(target.remove(&field)),
            (Some(key), Value::Array(elements)) => {
                merge_list(target.entry(field).or_insert(Value::Null), elements, key);
            }
            (_, value) => merge_strategic(target.entry(field).or_insert(Value::Null), value),
        }
    }
}

fn merge_list(target: &mut Value, elements: Vec<Value>, key: &str) {
    let mut merged = match target.take() {
        Value::Array(present) => present,
        _ => Vec::new(),
    };
    for element in elements {
        let place = merged.iter().position(|present| present.get(key) == element.get(key));
        let is_deletion = element.get("$patch").and_then(Value::as_str) == Some("delete");
        match (place, is_deletion) {
            (Some(place), true) => drop(merged.remove(place)),
            (None, true) => {}
            (Some(place), false) => merge_strategic(&mut merged[place], element),
            (None, false) => {
                let mut fresh = Value::Null;
                merge_strategic(&mut fresh, element);
                merged.push(fresh);
            }
        }
    }
    *target = Value::Array(merged);
}

/// Drops `$patch`, `$setElementOrder/..` and `$retainKeys`: element order and unions are not kept here.
fn without_directives(patch: Map<String, Value>) -> Map<String, Value> {
    patch.into_iter().filter(|(field, _)| !field.starts_with('$')).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_strategic_patch_merges_conditions_by_type_and_replaces_other_lists() {
        let pod = json!({"status": {
            "conditions": [{"type": "Ready", "status": "False", "reason": "x"}, {"type": "PodScheduled", "status": "True"}],
            "containerStatuses": [{"name": "a"}, {"name": "b"}],
        }});
        let patch = json!({"status": {
            "$setElementOrder/conditions": [{"type": "Ready"}],
            "conditions": [{"type": "Ready", "status": "True", "reason": null}, {"type": "Initialized", "status": "True"}],
            "containerStatuses": [{"name": "c"}],
        }});
        let expected = json!({"status": {
            "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "PodScheduled", "status": "True"},
                {"type": "Initialized", "status": "True"},
            ],
            "containerStatuses": [{"name": "c"}],
        }});
        assert_eq!(PatchKind::Strategic.apply(pod, patch).unwrap(), expected);
    }

    #[test]
    fn a_strategic_patch_can_delete_an_element() {
        let node = json!({"spec": {"taints": [{"key": "a"}, {"key": "b"}]}});
        let patch = json!({"spec": {"taints": [{"key": "a", "$patch": "delete"}]}});
        let expected = json!({"spec": {"taints": [{"key": "b"}]}});
        assert_eq!(PatchKind::Strategic.apply(node, patch).unwrap(), expected);
    }

    #[test]
    fn a_failed_json_patch_test_is_refused() {
        let patch = json!([{"op": "test", "path": "/a", "value": 2}]);
        assert!(PatchKind::Json.apply(json!({"a": 1}), patch).is_err());
    }
}
