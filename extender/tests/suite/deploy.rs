//! The extender's manifests fit together.

use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use neuron_core::names::LEADER_LABEL;
use serde::de::DeserializeOwned;
use serde_json::Value;

const EXTENDER: &str = include_str!("../../../deploy/k8s-neuron-scheduler-eks.yml");
const MY_SCHEDULER: &str = include_str!("../../../deploy/my-scheduler.yml");
const POLICY: &str = include_str!("../../../deploy/k8s-neuron-scheduler-networkpolicy.yml");

/// The Lease that replicas take where nothing else is said (`docs/architecture.md` §3).
const LEASE: &str = "k8s-neuron-scheduler";

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

#[test]
fn a_rollout_finishes_and_the_service_leads_to_the_replica_that_holds_the_lease() {
    let deployment: Deployment = object(EXTENDER, "Deployment");
    let spec = deployment.spec.unwrap();
    assert_eq!(spec.replicas, Some(2));
    let rolling = spec.strategy.unwrap().rolling_update.unwrap();
    // Each replica is ready, so the older ones may go before the newer one leads.
    let (surge, unavailable) = (rolling.max_surge.unwrap(), rolling.max_unavailable.unwrap());
    assert_eq!((surge, unavailable), (IntOrString::Int(1), IntOrString::Int(0)));

    let service: Service = object(EXTENDER, "Service");
    let mut selected = service.spec.unwrap().selector.unwrap();
    assert_eq!(selected.remove(LEADER_LABEL).as_deref(), Some("true"), "the label that the leader puts");
    assert_eq!(Some(selected), spec.selector.match_labels, "and else the replicas");

    let pod = spec.template.spec.unwrap();
    let env = pod.containers[0].env.clone().unwrap();
    let value = |name: &str| env.iter().find(|variable| variable.name == name).unwrap().value.as_deref();
    assert_eq!(value("NEURON_LEADER_ELECT"), Some("true"));
    assert_eq!(value("NEURON_LOG_FORMAT"), Some("classic"), "published checks look for AWS' lines");
    let role: Role = object(EXTENDER, "Role");
    let names = role.rules.unwrap().into_iter().filter_map(|rule| rule.resource_names);
    assert!(names.flatten().any(|name| name == LEASE), "the Lease that it renews");
}

#[test]
fn my_scheduler_tells_what_it_does_with_each_pod() {
    let scheduler: Deployment = object(MY_SCHEDULER, "Deployment");
    let container = scheduler.spec.unwrap().template.spec.unwrap().containers.remove(0);
    let words = container.command.into_iter().chain(container.args).flatten();
    assert!(words.into_iter().any(|word| word == "-v=2"), "the level of AWS' own manifest");
}
