//! Nodes and pods in few words, for the tests of placement.

use std::sync::Arc;

use crate::naive::{self, Sets};
use neuron_core::catalog::Catalog;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::{Refusal, fits, place};
pub(crate) use neuron_core::request::Role;
use neuron_core::request::{ContainerRequest, PodRequest};
use neuron_core::topology::{Policy, Topology};

/// A node beside its candidate sets by the naive definition.
#[derive(Clone, Debug)]
pub(crate) struct TestNode {
    pub(crate) occupancy: Occupancy,
    pub(crate) sets: Arc<Sets>,
}

impl TestNode {
    /// An empty node under policy `linked` or `documented`.
    pub(crate) fn new(instance_type: &str, lnc: u8, linked: bool) -> Self {
        let policy = if linked { Policy::Linked } else { Policy::Documented };
        let sets = naive::sets(&naive::node(instance_type, lnc, linked));
        Self { occupancy: node_at(instance_type, lnc, policy, "", ""), sets }
    }
}

/// An app container that requests devices.
pub(crate) fn devices(count: u32) -> (Role, u32, u32) {
    (Role::App, count, 0)
}

/// An app container that requests cores.
pub(crate) fn cores(count: u32) -> (Role, u32, u32) {
    (Role::App, 0, count)
}

/// A pod of containers `c0`, `c1`.., or `main` alone, each with its role, devices and cores.
pub(crate) fn pod(requests: &[(Role, u32, u32)]) -> PodRequest {
    let name = |at| if requests.len() == 1 { "main".to_owned() } else { format!("c{at}") };
    let containers = requests.iter().enumerate().map(|(at, &(role, devices, cores))| ContainerRequest {
        name: name(at).into(),
        role,
        devices,
        cores,
    });
    PodRequest { containers: containers.collect() }
}

/// An empty node at its type's default LNC.
pub(crate) fn node(instance_type: &str) -> Occupancy {
    node_with(instance_type, "", "")
}

/// A node with cores held and devices unhealthy, as comma lists.
pub(crate) fn node_with(instance_type: &str, held: &str, unhealthy: &str) -> Occupancy {
    node_under(instance_type, Policy::Documented, held, unhealthy)
}

/// The node of [`node_with`], under a policy.
pub(crate) fn node_under(instance_type: &str, policy: Policy, held: &str, unhealthy: &str) -> Occupancy {
    let lnc = Catalog::embedded().find(instance_type).unwrap().default_lnc;
    node_at(instance_type, lnc, policy, held, unhealthy)
}

/// The node of [`node_under`], at an LNC.
pub(crate) fn node_at(
    instance_type: &str,
    lnc: u8,
    policy: Policy,
    held: &str,
    unhealthy: &str,
) -> Occupancy {
    let found = Catalog::embedded().find(instance_type).unwrap();
    let mut node = Occupancy::empty(Arc::new(Topology::of(found, lnc, policy).unwrap()));
    node.hold(held.parse().unwrap());
    node.set_unhealthy(unhealthy.parse().unwrap());
    node
}

/// What each container gets, in words; `*` stands behind provisional ids.
pub(crate) fn given(request: &PodRequest, node: &Occupancy) -> String {
    let placement = place(request, node).unwrap();
    let hardware = placement.hardware(node.topology());
    assert!(hardware.is_subset(node.free_cores()), "only free hardware is given");
    let words = placement.containers.iter().map(|container| {
        let mut words = format!("{}:", container.name);
        if !container.devices.is_empty() {
            words += &format!(" devices {}", container.devices);
        }
        if !container.cores.is_empty() {
            words += &format!(" cores {}", container.cores);
        }
        if container.provisional {
            words += "*";
        }
        words
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Why the pod is refused, which `place` and `fits` must agree about.
pub(crate) fn refused(request: &PodRequest, node: &Occupancy) -> Refusal {
    let refusal = place(request, node).unwrap_err();
    assert_eq!(fits(request, node), Err(refusal.clone()));
    assert!(refusal.to_string().len() < 300, "kube-scheduler cuts its event at 1,024 characters");
    refusal
}
