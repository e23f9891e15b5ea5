//! Every text with which a node or a request is refused, as users read it in events.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

use neuron_core::ids::DeviceSet;
use neuron_core::names::Resource::{Core, Device};
use neuron_core::placement::Refusal;
use neuron_core::topology::{NodeTopologyError, TopologyError};

/// The variant's name. A new variant does not compile until it has one, and then needs a text below.
fn variant(refusal: &Refusal) -> &'static str {
    match refusal {
        Refusal::UnsupportedCount { .. } => "unsupported count",
        Refusal::TooManyContainers { .. } => "too many containers",
        Refusal::NotEnough { .. } => "not enough",
        Refusal::NotLinked { .. } => "not linked",
        Refusal::NeverTogether { .. } => "never together",
        Refusal::Unhealthy { .. } => "unhealthy",
        Refusal::HandDownNotSafe { .. } => "hand-down not safe",
        Refusal::NotDecided { .. } => "not decided",
    }
}

fn devices(text: &str) -> DeviceSet {
    text.parse().unwrap()
}

#[test]
fn a_placement_is_refused() {
    let instance_type = || "trn1.32xlarge".to_owned();
    let container = || "main".to_owned();
    let not_enough = |resource, beside, permanent| Refusal::NotEnough {
        resource,
        requested: 4,
        free: 2,
        total: 16,
        beside,
        permanent,
    };
    let refusals = [
        Refusal::UnsupportedCount { instance_type: instance_type(), resource: Device, requested: 7 },
        Refusal::UnsupportedCount { instance_type: instance_type(), resource: Core, requested: 3 },
        Refusal::TooManyContainers { containers: 200 },
        not_enough(Device, 0, false),
        not_enough(Core, 0, false),
        not_enough(Core, 1, false),
        not_enough(Core, 15, true),
        Refusal::NotLinked { container: None, resource: Device, requested: 3, free: 3, largest: 1 },
        Refusal::NotLinked {
            container: Some(container()),
            resource: Core,
            requested: 4,
            free: 9,
            largest: 3,
        },
        Refusal::NeverTogether {
            instance_type: instance_type(),
            container: container(),
            resource: Device,
            requested: 8,
        },
        Refusal::Unhealthy { devices: devices("2") },
        Refusal::Unhealthy { devices: devices("2,3") },
        Refusal::HandDownNotSafe {
            container: container(),
            resource: Device,
            requested: 2,
            handed_down: 4,
            permanent: true,
        },
        Refusal::NotDecided { containers: 19 },
    ];
    let line = |refusal: &Refusal| {
        let lasts = if refusal.is_permanent() { "for ever" } else { "for now" };
        format!("{}, {lasts}: {refusal}", variant(refusal))
    };
    show("placements", &refusals.iter().map(line).collect::<Vec<_>>());
}

#[test]
fn a_node_is_refused() {
    let refusals = [
        NodeTopologyError::NoType,
        NodeTopologyError::UnknownType { name: "inf9.24xlarge".into() },
        NodeTopologyError::Disagree { label: "inf2.24xlarge".into(), report: "trn1.32xlarge".into() },
        NodeTopologyError::Topology(TopologyError::Lnc {
            instance_type: "trn1.32xlarge".into(),
            lnc: 2,
            allowed: "1",
        }),
    ];
    show("nodes", &refusals.iter().map(ToString::to_string).collect::<Vec<_>>());
}

#[test]
fn a_request_is_refused() {
    let amounts = ["-1", "1500m", "1000000000000", "two", ""];
    let limits = |amount: &&str| serde_json::json!({"aws.amazon.com/neuron": amount});
    let texts: Vec<String> = amounts.iter().map(|amount| refused(&limits(amount))).collect();
    let both = serde_json::json!({"aws.amazon.com/neuron": "1", "aws.amazon.com/neurondevice": "1"});
    show("requests", &[texts, vec![refused(&both)]].concat());
}

/// What is said about a pod with these limits.
fn refused(limits: &serde_json::Value) -> String {
    let spec = serde_json::json!({"containers": [{"name": "main", "resources": {"limits": limits}}]});
    neuron_core::request::PodRequest::of(&serde_json::from_value(spec).unwrap()).unwrap_err().to_string()
}

fn show(name: &str, lines: &[String]) {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("refusals");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, lines.join("\n")));
}
