//! What pods request and nodes have, counted as Kubernetes counts it. Used by the scheduler and the kubelet, whose
//! predicates are the same code in Kubernetes, too.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource;

use crate::quantity::Quantity;

/// Amounts by resource name: cpu in millicores, everything else in whole units (bytes, devices).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    /// The amounts of a `requests`, `limits`, `capacity` or `allocatable`; one beyond an `i64` counts as 0.
    pub(crate) fn of(list: Option<&BTreeMap<String, resource::Quantity>>) -> Self {
        let read = |(name, amount): (&String, &resource::Quantity)| {
            let amount = Quantity::from(amount);
            let count = if name == "cpu" { amount.thousandths() } else { amount.units() };
            (name.clone(), count.unwrap_or(0))
        };
        Self(list.into_iter().flatten().map(read).collect())
    }

    /// Whether the list names the resource, even with 0.
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Names and amounts, in name order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&String, i64)> {
        self.0.iter().map(|(name, amount)| (name, *amount))
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
    }

    pub(crate) fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let rest = self.0.entry(name.clone()).or_insert(0);
            *rest = rest.saturating_sub(*amount);
        }
    }

    pub(crate) fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_insert(0);
            *most = (*most).max(*amount);
        }
    }
}

impl FromIterator<(String, i64)> for Amounts {
    fn from_iter<I: IntoIterator<Item = (String, i64)>>(amounts: I) -> Self {
        Self(amounts.into_iter().collect())
    }
}

/// Whether an init container keeps running beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// The pod's request by Kubernetes' rule: per resource the larger of what runs together at the end (app
/// containers and sidecars) and of what any init container needs beside the sidecars started before it;
/// plus the pod's overhead.
pub(crate) fn pod_request(spec: &PodSpec) -> Amounts {
    let request = |container: &Container| {
        Amounts::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
    };
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let mut needs = sidecars.clone();
        needs.add(&request(container));
        if is_sidecar(container) {
            sidecars = needs.clone();
        }
        starting.raise_to(&needs);
    }
    let mut total = sidecars;
    for container in &spec.containers {
        total.add(&request(container));
    }
    total.raise_to(&starting);
    total.add(&Amounts::of(spec.overhead.as_ref()));
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: serde_json::Value) -> PodSpec {
        serde_json::from_value(json).unwrap()
    }

    fn container(restart: Option<&str>, devices: u32) -> serde_json::Value {
        serde_json::json!({"name": "c", "restartPolicy": restart,
            "resources": {"requests": {"example.com/device": devices.to_string()}}})
    }

    #[test]
    fn init_containers_and_sidecars_count_by_kubernetes_rule() {
        let always = Some("Always");
        for (init, apps, expected) in [
            (vec![container(None, 4)], vec![container(None, 2), container(None, 1)], 4),
            (vec![container(None, 2)], vec![container(None, 2), container(None, 1)], 3),
            (vec![container(always, 1)], vec![container(None, 2)], 3),
            (vec![container(always, 1), container(None, 4)], vec![container(None, 2)], 5),
            (vec![container(None, 4), container(always, 1)], vec![container(None, 2)], 4),
        ] {
            let spec = spec(serde_json::json!({"initContainers": init, "containers": apps}));
            assert_eq!(pod_request(&spec).get("example.com/device"), expected, "{spec:?}");
        }
    }
}
