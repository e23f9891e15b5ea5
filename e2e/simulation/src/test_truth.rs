//! Pods and containers as tests of the judges have them in their truth.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use simulated_cluster::observer::{ContainerTruth, PodTruth};
use simulated_cluster::suite::Units;

/// The node of everything here.
pub(crate) const NODE: &str = "n1";

/// A pod on [`NODE`] since the beginning.
pub(crate) fn pod(name: &str, uid: &str, phase: &str, object: Value) -> PodTruth {
    PodTruth {
        key: ("default".to_owned(), name.to_owned()),
        uid: uid.to_owned(),
        object: Arc::new(object),
        as_bound: None,
        bound_on_edited: false,
        bound_late: false,
        node: NODE.to_owned(),
        phase: phase.to_owned(),
        since: Duration::ZERO,
    }
}

/// The container of a pod, which was started with these ids by resource and has these cores since the beginning.
pub(crate) fn container(
    pod: &str,
    uid: &str,
    ids: &BTreeMap<&str, Vec<&str>>,
    units: Units,
) -> ContainerTruth {
    let start = json!({"pod_namespace": "default", "pod_name": pod, "pod_uid": uid, "container": "main",
        "args": [], "env": {}, "devices": [], "annotations": {}, "ids": ids});
    ContainerTruth { start: Arc::new(serde_json::from_value(start).unwrap()), units, since: Duration::ZERO }
}

/// What a truth has a container by.
pub(crate) fn key(uid: &str, container: &str) -> (String, String, String) {
    (NODE.to_owned(), uid.to_owned(), container.to_owned())
}
