//! The extender's manifests fit together.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::de::DeserializeOwned;
use serde_json::Value;

const EXTENDER: &str = include_str!("../../../deploy/k8s-neuron-scheduler-eks.yml");
const MY_SCHEDULER: &str = include_str!("../../../deploy/my-scheduler.yml");
const POLICY: &str = include_str!("../../../deploy/k8s-neuron-scheduler-networkpolicy.yml");

/// The manifest's object of this kind.
fn object<T: DeserializeOwned>(manifest: &str, kind: &str) -> T {
    let objects: Vec<Value> = serde_saphyr::from_multiple(manifest).unwrap();
    let object = objects.into_iter().find(|object| object["kind"] == kind).unwrap();
    serde_json::from_value(object).unwrap()
}

#[test]
fn the_network_policy_lets_my_scheduler_and_nobody_else_to_the_extender() {
    let policy: NetworkPolicy = object(POLICY, "NetworkPolicy");
    let spec = policy.spec.unwrap();
    let (extender, scheduler): (Deployment, Deployment) =
        (object(EXTENDER, "Deployment"), object(MY_SCHEDULER, "Deployment"));
    assert_eq!(policy.metadata.namespace, extender.metadata.namespace);
    assert_eq!(
        policy.metadata.namespace, scheduler.metadata.namespace,
        "a podSelector looks in its own namespace"
    );

    let extender = extender.spec.unwrap();
    assert_eq!(spec.pod_selector.unwrap(), extender.selector);
    assert_eq!(spec.policy_types.unwrap(), ["Ingress"]);
    let [rule] = &spec.ingress.unwrap()[..] else { panic!("one rule") };
    let [from] = &rule.from.as_ref().unwrap()[..] else { panic!("one peer") };
    assert_eq!(from.pod_selector.as_ref().unwrap(), &scheduler.spec.unwrap().selector);
    assert!(from.namespace_selector.is_none() && from.ip_block.is_none());

    let [port] = &rule.ports.as_ref().unwrap()[..] else { panic!("one port") };
    let containers = extender.template.spec.unwrap().containers;
    let served = containers[0].ports.as_ref().unwrap()[0].container_port;
    assert_eq!(port.port, Some(IntOrString::Int(served)));
    assert_eq!(port.protocol.as_deref(), Some("TCP"));
}
