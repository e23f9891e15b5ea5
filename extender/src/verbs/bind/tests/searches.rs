//! The index is free while a place for a pod is searched for, so that what is found may be gone once it is to be reserved.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::placement::place;
use neuron_core::pod::{BoundPod, PodSpec};
use neuron_core::topology::Policy;
use serde_json::json;

use super::world::NODE;
use crate::index::{Advertised, Change, Cluster, Index, ObservedNode, ReservationId, TopologyCache};
use crate::verbs::bind::BindError;
use crate::verbs::bind::binding::{BindingRequest, LivePod};
use crate::verbs::bind::reservation::reserve;

/// A cluster with one node of six devices in a row.
fn cluster() -> Cluster {
    let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
    let cluster = Cluster::new(Index::new(topologies));
    let node = ObservedNode {
        name: NODE.to_owned(),
        instance_type: Some("inf2.24xlarge".to_owned()),
        report: None,
        advertised: Advertised { any: true, devices: true, cores: true },
    };
    cluster.write(|index| index.change_nodes(Change::Listed(vec![node])));
    cluster
}

/// Another bind reserves so many cores from this one on.
fn another_bind(cluster: &Cluster, first: u8, cores: u8) -> ReservationId {
    cluster.write(|index| index.reserve("other", NODE, CoreSet::run(first, cores), Arc::default()))
}

/// What a bind of a pod that asks for so many devices reserves, and how often it searches: before a search ends, the call is told which one
/// it is. It could not touch the cluster if the bind had the index then.
fn bind(
    cluster: &Cluster,
    devices: u8,
    meanwhile: impl Fn(u32),
) -> (Result<Arc<BTreeMap<String, String>>, BindError>, u32) {
    let limits = json!({"aws.amazon.com/neuron": devices.to_string()});
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": limits}}]});
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let pod = BoundPod::new("default", "asks", "asks", BTreeMap::new(), &spec, None);
    let pod = LivePod { node: None, device_model: None, pod: Arc::new(pod) };
    let [namespace, name, uid, node] = ["default", "asks", "asks", NODE].map(str::to_owned);
    let binding = BindingRequest { namespace, name, uid, node, annotations: Arc::default() };
    let searches = Cell::new(0);
    let reserved = reserve(cluster, &pod, &binding, UNIX_EPOCH, |request, occupancy| {
        searches.set(searches.get() + 1);
        meanwhile(searches.get());
        place(request, occupancy)
    });
    (reserved.map(|(annotations, _)| annotations), searches.get())
}

#[test]
fn what_another_bind_took_during_the_search_is_not_reserved_again() {
    let cluster = cluster();
    let (reserved, searches) = bind(&cluster, 1, |search| {
        if search == 1 {
            another_bind(&cluster, 0, 2);
        }
    });
    assert_eq!((reserved.unwrap()["NEURON_DEVS"].as_str(), searches), ("1", 2));
    assert_eq!(bind(&cluster, 1, |_| ()).1, 0, "what is reserved for the pod is bound by its next call");
    let cores = cluster.read(|index| index.view(NODE).unwrap().takes_pods().unwrap().held());
    assert_eq!(cores, CoreSet::run(0, 4));
}

#[test]
fn a_node_that_was_full_is_searched_again_where_it_got_free_meanwhile() {
    let cluster = cluster();
    let other = another_bind(&cluster, 0, 2);
    let (reserved, searches) = bind(&cluster, 6, |search| {
        if search == 1 {
            cluster.write(|index| index.release("other", NODE, other));
        }
    });
    assert_eq!((reserved.unwrap()["NEURON_DEVS"].as_str(), searches), ("0,1,2,3,4,5", 2));
    let (refused, searches) = bind(&self::cluster(), 7, |_| ());
    assert!(matches!(refused, Err(BindError::Refused(_))) && searches == 1, "{refused:?}");
}

#[test]
fn a_node_that_goes_during_the_search_is_unknown() {
    let cluster = cluster();
    let (gone, searches) =
        bind(&cluster, 1, |_| cluster.write(|index| index.change_nodes(Change::Gone(NODE.to_owned()))));
    assert_eq!((gone, searches), (Err(BindError::UnknownNode { node: NODE.to_owned() }), 1));
}

#[test]
fn a_bind_does_not_search_for_ever_on_a_node_that_never_stays_the_same() {
    let cluster = cluster();
    let other = Cell::new(None);
    let (reserved, searches) = bind(&cluster, 1, |_| match other.take() {
        Some(id) => cluster.write(|index| index.release("other", NODE, id)),
        None => other.set(Some(another_bind(&cluster, 4, 2))),
    });
    let refusal = reserved.unwrap_err();
    assert_eq!(refusal, BindError::NodeChanges { node: NODE.to_owned(), searches });
    let told =
        "node n1 changed during each of 4 searches for a place for the pod; kube-scheduler tries again";
    assert_eq!(refusal.to_string(), told);
    assert!(cluster.read(|index| index.reservations_of("asks").is_none()));
}

#[test]
fn a_repeated_bind_gives_what_the_first_has_chosen_unless_the_node_is_another_machine_now() {
    let cluster = cluster();
    let (first, _) = bind(&cluster, 1, |_| {});
    let (again, searches) = bind(&cluster, 1, |_| {});
    assert_eq!((again.unwrap(), searches), (first.unwrap(), 0));
    let node = ObservedNode {
        name: NODE.to_owned(),
        instance_type: Some("trn2.48xlarge".to_owned()),
        report: None,
        advertised: Advertised { any: true, devices: true, cores: true },
    };
    cluster.write(|index| index.change_nodes(Change::Applied(node)));
    let (other, searches) = bind(&cluster, 1, |_| {});
    let record = other.unwrap()["neuron-scheduler/allocation"].clone();
    assert!(searches == 1 && record.contains("\"lnc\":2"), "{record}");
}
