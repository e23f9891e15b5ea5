//! Kubernetes quantities as whole numbers, as kubelet's predicates count them. Used by `admission`.

use k8s_openapi::api::core::v1::{Container, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

/// Whole units by resource; cpu in thousandths. Anything that is no quantity counts as 0.
pub(crate) type Amounts = BTreeMap<String, i64>;

/// One quantity in whole units, cpu in thousandths, rounded up.
pub(crate) fn amount(resource: &str, quantity: &Quantity) -> i64 {
    let text = quantity.0.trim();
    let digits = text.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let factor = match &text[digits.len()..] {
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "Ki" => 1024.0,
        "Mi" => 1024.0 * 1024.0,
        "Gi" => 1024.0 * 1024.0 * 1024.0,
        "Ti" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        _ => 1.0,
    };
    let thousandths = if resource == "cpu" { 1000.0 } else { 1.0 };
    // Saturates at the ends of i64, which no node has.
    (digits.parse::<f64>().unwrap_or(0.0) * factor * thousandths).ceil() as i64
}

/// A container's limits of everything, in name order.
pub(crate) fn limits(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.limits.as_ref()))
}

fn requests(container: &Container) -> Amounts {
    amounts(container.resources.as_ref().and_then(|resources| resources.requests.as_ref()))
}

fn amounts(quantities: Option<&BTreeMap<String, Quantity>>) -> Amounts {
    let quantities = quantities.into_iter().flatten();
    quantities.map(|(resource, quantity)| (resource.clone(), amount(resource, quantity))).collect()
}

/// Whether an init container keeps running beside the others.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// What the whole pod needs at its hungriest moment: apps and sidecars together, or one init container with the
/// sidecars started before it (`resourcehelper.PodRequests`).
pub(crate) fn pod_requests(pod: &Pod) -> Amounts {
    let Some(spec) = &pod.spec else { return Amounts::new() };
    let mut running = Amounts::new();
    let mut most = Amounts::new();
    for container in spec.init_containers.iter().flatten() {
        let mut moment = running.clone();
        add(&mut moment, requests(container));
        if is_sidecar(container) {
            running = moment.clone();
        }
        raise(&mut most, moment);
    }
    for container in &spec.containers {
        add(&mut running, requests(container));
    }
    raise(&mut most, running);
    most
}

/// Adds `more` to `sum`.
pub(crate) fn add(sum: &mut Amounts, more: Amounts) {
    for (resource, amount) in more {
        let total = sum.entry(resource).or_default();
        *total = total.saturating_add(amount);
    }
}

fn raise(most: &mut Amounts, moment: Amounts) {
    for (resource, amount) in moment {
        let peak = most.entry(resource).or_default();
        *peak = amount.max(*peak);
    }
}
