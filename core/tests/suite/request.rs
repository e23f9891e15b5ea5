//! What a pod requests: quantities, roles, totals, and messages for bad input.

use std::collections::BTreeMap;

use neuron_core::bounded::Listed as _;
use neuron_core::names::Resource;
use neuron_core::pod::{Amounts, BoundPod, Container, PodSpec, PodStatus};
use neuron_core::quantity::{MAX_COUNT, Quantity, QuantityError};
use neuron_core::request::{PodRequest, Role};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

fn spec(value: Value) -> PodSpec {
    serde_json::from_value(value).unwrap()
}

fn requesting(limits: Value) -> PodSpec {
    spec(json!({ "containers": [{ "name": "main", "resources": { "limits": limits } }] }))
}

#[rstest]
#[case(json!("2"), 2)]
#[case(json!(2), 2)]
#[case(json!("2000m"), 2)]
#[case(json!("2k"), 2000)]
#[case(json!("1Ki"), 1024)]
#[case(json!("0.5Ki"), 512)]
#[case(json!("1e0"), 1)]
#[case(json!("2E1"), 20)]
#[case(json!(1e0), 1)]
#[case(json!("20e-1"), 2)]
#[case(json!("+3"), 3)]
#[case(json!("3."), 3)]
#[case(json!("003.000"), 3)]
#[case(json!("2000000000n"), 2)]
#[case(json!("3000000u"), 3)]
#[case(json!("0.000001T"), 1_000_000)]
#[case(json!("0.000000001G"), 1)]
#[case(json!("0.000000000000001P"), 1)]
#[case(json!("0.000000000000000001E"), 1)]
#[case(json!("0.5Mi"), 524_288)]
#[case(json!("0.0000000004656612873077392578125Ti"), 512)]
#[case(json!("0.0000000004656612873077392578125Pi"), 524_288)]
#[case(json!("1e+3"), 1000)]
#[case(json!(".5k"), 500)]
#[case(json!("1M"), 1_000_000)]
#[case(json!("0"), 0)]
#[case(json!("-0"), 0)]
#[case(json!("0e99"), 0)]
#[case(json!(null), 0)]
fn quantities_as_the_api_server_takes_them(#[case] quantity: Value, #[case] count: u32) {
    let request = PodRequest::of(&requesting(json!({ "aws.amazon.com/neuron": quantity }))).unwrap();
    assert_eq!(request.total(Resource::Device), count);
    assert_eq!(request.is_empty(), count == 0);
}

#[rstest]
#[case(json!("-1"), "-1 is negative; use a whole number")]
#[case(json!(-1), "-1 is negative; use a whole number")]
#[case(json!("0.5"), "0.5 is not whole; use a whole number")]
#[case(json!("500m"), "500m is not whole; use a whole number")]
#[case(json!(1.5), "1.5 is not whole; use a whole number")]
#[case(json!("1e-99"), "1e-99 is not whole; use a whole number")]
#[case(json!("1000001"), "1000001 is more than any node has; use a whole number up to 1000000")]
#[case(json!("8E"), "8E is more than any node has; use a whole number up to 1000000")]
#[case(json!("8Ei"), "8Ei is more than any node has; use a whole number up to 1000000")]
#[case(json!("9e2147483647"), "9e2147483647 is more than any node has; use a whole number up to 1000000")]
#[case(json!(1e300), "1e+300 is more than any node has; use a whole number up to 1000000")]
#[case(json!("two"), "\"two\" is not a quantity; use a whole number")]
#[case(json!(""), "\"\" is not a quantity; use a whole number")]
#[case(json!("."), "\".\" is not a quantity; use a whole number")]
#[case(json!("1.2.3"), "\"1.2.3\" is not a quantity; use a whole number")]
#[case(json!("2 "), "\"2 \" is not a quantity; use a whole number")]
#[case(json!("2K"), "\"2K\" is not a quantity; use a whole number")]
#[case(json!("2e"), "\"2e\" is not a quantity; use a whole number")]
#[case(json!("e3"), "\"e3\" is not a quantity; use a whole number")]
#[case(json!("2e3.5"), "\"2e3.5\" is not a quantity; use a whole number")]
#[case(json!("1-2"), "\"1-2\" is not a quantity; use a whole number")]
#[case(json!("--2"), "\"--2\" is not a quantity; use a whole number")]
#[case(json!("0.1Ki"), "0.1Ki is not whole; use a whole number")]
#[case(json!("0.0000000004656612873077392578125Gi"), "0.0000000004656612873077392578125Gi is not whole; use a whole number")]
fn what_is_no_count_is_an_error(#[case] quantity: Value, #[case] problem: &str) {
    let error = PodRequest::of(&requesting(json!({ "aws.amazon.com/neuroncore": quantity }))).unwrap_err();
    assert_eq!(error.to_string(), format!("Container main asks for aws.amazon.com/neuroncore: {problem}"));
}

proptest! {
    #![proptest_config(crate::config())]

    #[test]
    fn any_text_is_a_count_or_an_error_that_quotes_it(
        text in prop_oneof![any::<String>(), "[+-]?[0-9.]{0,45}([eE][+-]?[0-9]{0,12}|[numkKMGTPE]i?)?"],
    ) {
        match Quantity::new(&text).count() {
            Ok(count) => prop_assert!(count <= MAX_COUNT),
            Err(QuantityError::NotAQuantity(quoted)) => prop_assert_eq!(quoted, text),
            Err(error) => prop_assert!(error.to_string().starts_with(&text)),
        }
    }

    #[test]
    fn a_count_reads_the_same_in_every_form(count in 0..=MAX_COUNT) {
        let forms = [
            format!("{count}"),
            format!("+{count}.000"),
            format!("{count}000m"),
            format!("{count}000000000n"),
            format!("{count}e0"),
            format!("{count}000E-3"),
        ];
        for form in forms {
            prop_assert_eq!(Quantity::new(&form).count(), Ok(count), "{}", form);
        }
        prop_assert_eq!(Quantity::new(&format!("{}", count / 1024 * 1024)).count(), Quantity::new(&format!("{}Ki", count / 1024)).count());
    }
}

#[rstest]
#[case::digits("1".repeat(1_000_000))]
#[case::a_count_if_it_was_read(format!("{}1", "0".repeat(256)))]
#[case::other_characters("\u{1f980}".repeat(100_000))]
#[case::a_count_before_one(format!("{}\u{1f980}", "0".repeat(255)))]
#[case::escaped("\u{10ffff}".repeat(65))]
fn of_a_long_quantity_little_is_kept_and_said(#[case] quantity: String) {
    let limits = json!({ "aws.amazon.com/neuron": quantity });
    let amounts: Amounts = serde_json::from_value(limits.clone()).unwrap();
    assert!(serde_json::to_string(&amounts).unwrap().len() < 320);
    let error = PodRequest::of(&requesting(limits)).unwrap_err().to_string();
    assert!(
        error.ends_with("...\" is not a quantity; use a whole number") && error.len() < 800,
        "{error:.2000}"
    );
}

#[test]
fn the_longest_quantity_is_read() {
    let quantity = format!("{}2", "0".repeat(255));
    let request = PodRequest::of(&requesting(json!({ "aws.amazon.com/neuron": quantity }))).unwrap();
    assert_eq!(request.total(Resource::Device), 2);
}

#[rstest]
#[case(json!([0, 1]), "invalid type: sequence")]
#[case(json!({ "a": 1 }), "invalid type: map")]
#[case(json!(true), "invalid type: boolean `true`")]
fn what_is_no_quantity_is_not_looked_into(#[case] quantity: Value, #[case] why: &str) {
    let spec =
        json!({ "containers": [{ "resources": { "limits": { "aws.amazon.com/neuron": quantity } } }] });
    let error = serde_json::from_value::<PodSpec>(spec).unwrap_err().to_string();
    assert_eq!(error, format!("{why}, expected a quantity, which is a text or a number"));
}

#[rstest]
#[case("containers")]
#[case("initContainers")]
fn a_pod_of_many_containers_is_read_and_one_of_any_number_is_not(#[case] field: &str) {
    let read = |count| serde_json::from_value::<PodSpec>(json!({ field: vec![json!({}); count] }));
    assert!(PodRequest::of(&read(Container::MOST).unwrap()).unwrap().is_empty());
    assert_eq!(read(Container::MOST + 1).unwrap_err().to_string(), "more than 32768 containers");
}

#[test]
fn the_name_of_a_container_is_no_longer_than_kubernetes_takes_it() {
    let read =
        |length| serde_json::from_value::<PodSpec>(json!({ "containers": [{ "name": "n".repeat(length) }] }));
    assert!(read(63).is_ok());
    assert_eq!(read(64).unwrap_err().to_string(), "a text of more than 63 bytes");
}

#[test]
fn the_old_name_asks_for_devices_but_not_beside_the_new_one() {
    let old = PodRequest::of(&requesting(json!({ "aws.amazon.com/neurondevice": 3 }))).unwrap();
    assert_eq!(old.total(Resource::Device), 3);
    let both = requesting(json!({ "aws.amazon.com/neurondevice": 1, "aws.amazon.com/neuron": 1 }));
    assert_eq!(
        PodRequest::of(&both).unwrap_err().to_string(),
        "Container main asks for both aws.amazon.com/neuron and aws.amazon.com/neurondevice, \
         two names of the same devices; keep aws.amazon.com/neuron"
    );
}

#[test]
fn limits_decide_and_other_names_are_not_read() {
    let pod = spec(json!({ "containers": [
        { "name": "requests", "resources": { "requests": { "aws.amazon.com/neuron": "4" } } },
        { "name": "typo", "resources": { "limits": { "aws.amazon.com/neurons": "4", "cpu": "nonsense" } } },
        { "name": "plain" },
    ] }));
    assert!(PodRequest::of(&pod).unwrap().is_empty());
}

#[test]
fn roles_and_order_are_kubelets() {
    let one = json!({ "limits": { "aws.amazon.com/neuron": 1 } });
    let request = PodRequest::of(&spec(json!({
        "initContainers": [
            { "name": "prepare", "resources": one },
            { "name": "side", "restartPolicy": "Always", "resources": one },
        ],
        "containers": [{ "name": "plain" }, { "name": "main", "resources": one }],
    })))
    .unwrap();
    let roles: Vec<_> =
        request.containers.iter().map(|container| (&*container.name, container.role)).collect();
    assert_eq!(roles, [("prepare", Role::Init), ("side", Role::Sidecar), ("main", Role::App)]);
    assert!(request.requests(Resource::Device) && !request.requests(Resource::Core));
}

/// `i` init container, `s` sidecar, `a` app container, each with its count.
#[rstest]
#[case("a2 a3", 5)]
#[case("i4 a2 a1", 4)]
#[case("i4 a2 a3", 5)]
#[case("i4 i6 a2", 6)]
#[case("s2 a2", 4)]
#[case("s2 i4 a2", 6)]
#[case("i4 s2 a2", 4)]
#[case("s1 i1 s1 i3 a1", 5)]
#[case("s2", 2)]
#[case("", 0)]
fn the_pods_count_is_kubernetes_own(#[case] containers: &str, #[case] total: u32) {
    let (mut init, mut app) = (Vec::new(), Vec::new());
    for (place, word) in containers.split_whitespace().enumerate() {
        let mut container = json!({
            "name": format!("c{place}"),
            "resources": { "limits": { "aws.amazon.com/neuroncore": word[1..] } },
        });
        if word.starts_with('s') {
            container["restartPolicy"] = json!("Always");
        }
        if word.starts_with('a') { app.push(container) } else { init.push(container) }
    }
    let request = PodRequest::of(&spec(json!({ "initContainers": init, "containers": app }))).unwrap();
    assert_eq!(request.total(Resource::Core), total);
    assert_eq!(request.total(Resource::Device), 0);
}

#[test]
fn a_bound_pod_keeps_what_decides() {
    let status: PodStatus = serde_json::from_value(json!({
        "phase": "Failed",
        "conditions": [
            { "type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z" },
            { "type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:01Z" },
        ],
    }))
    .unwrap();
    let annotations = ["AWS_NEURON_IDS", "NEURON_CORES", "neuron-scheduler/allocation", "other"];
    let annotations: BTreeMap<String, String> =
        annotations.iter().map(|key| (key.to_string(), "0".into())).collect();
    let pod_with =
        |status| BoundPod::new("ns", "pod", "u1", annotations.clone(), &requesting(json!({})), status);
    let pod = pod_with(Some(&status));
    assert_eq!(&*pod.full_name, "ns/pod");
    assert_eq!(pod.scheduled_at.unwrap().to_string(), "2026-01-01T00:00:01Z");
    assert!(pod.terminal);
    assert!(!pod.annotations.contains_key("other") && pod.annotations.len() == 3);

    let running = PodStatus { phase: Some("Running".into()), ..PodStatus::default() };
    assert!(!pod_with(Some(&running)).terminal);
    assert!(!pod_with(None).terminal);
}
