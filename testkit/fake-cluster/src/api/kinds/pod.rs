//! The rules of pods: their defaults on creation, and which fields an update may change. Called by `verbs::create` and
//! `verbs::update`.

use serde_json::{Value, json};

use super::container_resources;
use crate::api::error::{ApiError, FieldError};
use crate::api::object::{self, as_map, map_mut};

/// The priorities that every cluster has.
const PRIORITY_CLASSES: [(&str, i64); 2] =
    [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// Adds Kubernetes' defaults to a new pod and replaces its status: phase Pending.
/// 400 for a resource amount that cannot be read.
pub(crate) fn complete(pod: &mut Value) -> Result<(), ApiError> {
    let gates =
        pod.pointer("/spec/schedulingGates").and_then(Value::as_array).is_some_and(|gates| !gates.is_empty());
    let status = if gates { gated_status() } else { json!({"phase": "Pending"}) };
    as_map(pod).insert("status".into(), status);
    let name = object::text(pod, "/metadata/name").to_owned();
    let spec = map_mut(pod, "spec");
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("dnsPolicy", json!("ClusterFirst")),
        ("schedulerName", json!("default-scheduler")),
        ("serviceAccountName", json!("default")),
        ("securityContext", json!({})),
    ] {
        spec.entry(field).or_insert(value);
    }
    if let Some(class) = spec.get("priorityClassName").and_then(Value::as_str) {
        let priority = priority_of(class, spec.get("priority").and_then(Value::as_i64))
            .map_err(|why| ApiError::forbidden(format!("pods {name:?} is forbidden: {why}")))?;
        spec.insert("priority".into(), priority.into());
    }
    for list in ["initContainers", "containers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let container = as_map(container);
            for (field, value) in [
                ("imagePullPolicy", json!("IfNotPresent")),
                ("terminationMessagePath", json!("/dev/termination-log")),
                ("terminationMessagePolicy", json!("File")),
                ("resources", json!({})),
            ] {
                container.entry(field).or_insert(value);
            }
            container_resources::complete(container.entry("resources").or_insert(Value::Null))?;
        }
    }
    Ok(())
}

/// The priority of a class, which is all that a pod may say beside it: the admission plugin Priority. Without a class it is taken as it is.
fn priority_of(class: &str, given: Option<i64>) -> Result<i64, String> {
    let known = PRIORITY_CLASSES.iter().find(|(name, _)| *name == class);
    let (_, priority) = known.ok_or_else(|| format!("no PriorityClass with name {class} was found"))?;
    match given {
        Some(given) if given != *priority => Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed \
             {priority} from the given PriorityClass name"
        )),
        _ => Ok(*priority),
    }
}

/// The status of a new pod with scheduling gates.
fn gated_status() -> Value {
    json!({
        "phase": "Pending",
        "conditions": [{
            "type": "PodScheduled",
            "status": "False",
            "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
        }],
    })
}

/// Every rule that a new pod breaks.
pub(crate) fn check_new(pod: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if containers(pod, "containers").is_empty() {
        errors.push(FieldError::required("spec.containers", ""));
    }
    let mut names = Vec::new();
    for list in ["initContainers", "containers"] {
        for (index, container) in containers(pod, list).iter().enumerate() {
            let field = format!("spec.{list}[{index}]");
            let name = object::text(container, "/name");
            if name.is_empty() {
                errors.push(FieldError::required(format!("{field}.name"), ""));
            } else if names.contains(&name) {
                errors.push(FieldError::duplicate(format!("{field}.name"), name));
            }
            names.push(name);
            if object::text(container, "/image").is_empty() {
                errors.push(FieldError::required(format!("{field}.image"), ""));
            }
            errors.extend(container_resources::check(container, &format!("{field}.resources")));
        }
    }
    errors
}

/// Refuses an update of a pod's spec beyond the few fields that Kubernetes lets change.
pub(crate) fn check_update(old: &Value, new: &Value) -> Vec<FieldError> {
    if fixed_part(old) == fixed_part(new) {
        return Vec::new();
    }
    let why = "pod updates may not change fields other than `spec.containers[*].image`,\
               `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to \
               existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
               previously negative)";
    vec![FieldError::forbidden("spec", why)]
}

/// The spec without the fields that may change. Scheduling gates may be removed before the pod is bound.
fn fixed_part(pod: &Value) -> Value {
    let mut spec = pod.get("spec").cloned().unwrap_or_default();
    let fields = as_map(&mut spec);
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        fields.remove(field);
    }
    for list in ["initContainers", "containers"] {
        for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            as_map(container).remove("image");
        }
    }
    spec
}

/// Whether the pod has ended for good.
pub(crate) fn is_terminal(pod: &Value) -> bool {
    matches!(object::text(pod, "/status/phase"), "Succeeded" | "Failed")
}

/// The containers under `containers` or `initContainers`.
pub(crate) fn containers<'a>(pod: &'a Value, list: &str) -> &'a [Value] {
    pod.get("spec").and_then(|spec| spec.get(list)).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
