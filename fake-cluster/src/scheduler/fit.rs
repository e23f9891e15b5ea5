//! NodeResourcesFit: what a pod asks for, and whether a node's reported allocatable still has it.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use super::quantity;
use super::verdict::{Refusal, Refuser};

/// Amounts by resource name: cpu in millicores, everything else in whole units (bytes, devices).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Amounts(BTreeMap<String, i64>);

impl Amounts {
    pub(super) fn of(list: Option<&BTreeMap<String, Quantity>>) -> Self {
        let read = |(name, amount): (&String, &Quantity)| {
            let amount = if name == "cpu" { quantity::thousandths(amount) } else { quantity::units(amount) };
            (name.clone(), amount)
        };
        Self(list.into_iter().flatten().map(read).collect())
    }

    pub(super) fn get(&self, name: &str) -> i64 {
        self.0.get(name).copied().unwrap_or(0)
    }

    pub(super) fn add(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let sum = self.0.entry(name.clone()).or_insert(0);
            *sum = sum.saturating_add(*amount);
        }
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let rest = self.0.entry(name.clone()).or_insert(0);
            *rest = rest.saturating_sub(*amount);
        }
    }

    fn raise_to(&mut self, other: &Self) {
        for (name, amount) in &other.0 {
            let most = self.0.entry(name.clone()).or_insert(0);
            *most = (*most).max(*amount);
        }
    }
}

/// The pod's request by Kubernetes' rule: per resource the larger of what runs together at the end (app
/// containers and sidecars) and of what any init container needs beside the sidecars started before it;
/// plus the pod's overhead.
pub(super) fn pod_request(spec: &PodSpec) -> Amounts {
    let request = |container: &Container| {
        Amounts::of(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
    };
    let mut sidecars = Amounts::default();
    let mut starting = Amounts::default();
    for container in spec.init_containers.iter().flatten() {
        let mut needs = sidecars.clone();
        needs.add(&request(container));
        if container.restart_policy.as_deref() == Some("Always") {
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

/// Whether `request` goes beside what `used` (by `pods` pods) already takes of `allocatable`. Resources in
/// `ignored` are left to an extender.
pub(super) fn fits(
    request: &Amounts,
    used: &Amounts,
    pods: usize,
    allocatable: &Amounts,
    ignored: &BTreeSet<String>,
) -> Result<(), Refusal> {
    let mut reasons = Vec::new();
    let mut resolvable = true;
    if i64::try_from(pods).unwrap_or(i64::MAX) >= allocatable.get("pods") {
        reasons.push("Too many pods".to_owned());
    }
    for (name, asked) in &request.0 {
        let total = allocatable.get(name);
        if *asked > 0 && !ignored.contains(name) && *asked > total - used.get(name) {
            reasons.push(format!("Insufficient {name}"));
            resolvable &= *asked <= total;
        }
    }
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Refusal { by: Refuser::NodeResourcesFit, resolvable, reasons })
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

    #[test]
    fn more_than_the_node_has_at_all_cannot_be_helped_by_preemption() {
        let amounts = |devices: i64| {
            Amounts(BTreeMap::from([("pods".into(), 110), ("example.com/device".into(), devices)]))
        };
        let ask = |devices| Amounts(BTreeMap::from([("example.com/device".into(), devices)]));
        let refusal =
            |asked, used| fits(&ask(asked), &ask(used), 1, &amounts(4), &BTreeSet::new()).unwrap_err();
        assert!(refusal(3, 2).resolvable);
        assert!(!refusal(5, 0).resolvable);
        assert_eq!(refusal(5, 0).reasons, ["Insufficient example.com/device"]);
        let ignored = BTreeSet::from(["example.com/device".to_owned()]);
        assert_eq!(fits(&ask(5), &ask(0), 1, &amounts(4), &ignored), Ok(()));
    }
}
