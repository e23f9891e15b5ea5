//! The index as its readers see it: what fits where, after what the watches showed and what binds reserved.

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::placement::{EqualNodes, place};
use neuron_core::pod::PodSpec;
use neuron_core::request::PodRequest;
use neuron_core::topology::{NodeTopologyError, Policy};
use serde_json::json;

use super::*;

mod preemption;
mod reservations;

/// Devices of an inf2.24xlarge.
const ALL: u32 = 6;

fn index() -> Index {
    Index::new(TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented))
}

/// An index with these nodes, by name and instance type, and no pods, both listed and explained.
fn index_of(nodes: &[(&str, &str)]) -> Index {
    let mut index = index();
    index.change_pods(Change::Listed(Vec::new()));
    index.change_nodes(Change::Listed(nodes.iter().map(|(name, kind)| node(name, kind)).collect()));
    index.take_unexplained();
    index
}

fn node(name: &str, instance_type: &str) -> ObservedNode {
    let instance_type = Some(instance_type.to_owned());
    ObservedNode { name: name.to_owned(), instance_type, report: None, advertised: Advertised::default() }
}

fn spec(devices: u32) -> PodSpec {
    spec_of(&devices.to_string())
}

fn spec_of(amount: &str) -> PodSpec {
    let limits = json!({"aws.amazon.com/neuron": amount});
    serde_json::from_value(json!({"containers": [{"name": "main", "resources": {"limits": limits}}]}))
        .unwrap()
}

/// A pod that asks for devices. Its UID is its name.
fn pod(name: &str, devices: u32) -> ObservedPod {
    let pod = BoundPod::new("default", name, name, BTreeMap::new(), &spec(devices), None);
    ObservedPod { node: None, unschedulable: false, device_model: None, owner: None, pod: Arc::new(pod) }
}

fn unschedulable(name: &str) -> ObservedPod {
    ObservedPod { unschedulable: true, ..pod(name, 1) }
}

/// A pod bound to a node, with a record of these devices.
fn bound(name: &str, node: &str, devices: &[u8]) -> ObservedPod {
    let count = u32::try_from(devices.len()).unwrap();
    let record = json!({"v": 1, "node": node, "lnc": 1, "containers": {"main": {"devices": devices}}});
    let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
    let pod = BoundPod::new("default", name, name, annotations, &spec(count), None);
    ObservedPod {
        node: Some(node.into()),
        unschedulable: false,
        device_model: None,
        owner: None,
        pod: Arc::new(pod),
    }
}

fn ended(mut pod: ObservedPod) -> ObservedPod {
    Arc::make_mut(&mut pod.pod).terminal = true;
    pod
}

fn request(devices: u32) -> PodRequest {
    PodRequest::of(&spec(devices)).unwrap()
}

/// Whether so many devices are free, and linked, on the node.
fn fits(index: &Index, node: &str, devices: u32) -> bool {
    index.view(node).unwrap().fits(&mut EqualNodes::new(&request(devices))).is_ok()
}

fn reserve(index: &mut Index, uid: &str, node: &str, first_core: u8, cores: u8) {
    index.reserve(uid, node, CoreSet::run(first_core, cores), Arc::default());
}

fn names<'a>(names: impl IntoIterator<Item = &'a String>) -> String {
    names.into_iter().map(String::as_str).collect::<Vec<_>>().join(" ")
}

#[test]
fn it_is_listed_once_both_lists_are_complete() {
    let mut index = index();
    index.change_pods(Change::ListBegins);
    index.change_nodes(Change::ListBegins);
    assert!(!index.is_listed());
    index.change_pods(Change::Listed(Vec::new()));
    assert!(!index.is_listed());
    index.change_nodes(Change::Listed(Vec::new()));
    assert!(index.is_listed());
    let mut other = self::index();
    other.change_nodes(Change::Listed(Vec::new()));
    assert!(!other.is_listed());
}

#[test]
fn it_is_disconnected_until_what_was_disconnected_is_listed() {
    let mut index = index_of(&[]);
    assert!(!index.is_disconnected());
    index.change_pods(Change::Disconnected);
    index.change_nodes(Change::Listed(Vec::new()));
    assert!(index.is_disconnected());
    index.change_pods(Change::Listed(Vec::new()));
    assert!(!index.is_disconnected());
    index.change_nodes(Change::Disconnected);
    index.change_pods(Change::Listed(Vec::new()));
    assert!(index.is_disconnected());
    index.change_nodes(Change::ListBegins);
    assert!(index.is_disconnected());
    assert!(index.is_listed(), "what is known stays");
}

#[test]
fn a_bound_pod_holds_until_it_ends_or_goes() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    for end in [Change::Gone("one".to_owned()), Change::Applied(ended(bound("one", "n1", &[0])))] {
        index.change_pods(Change::Applied(bound("one", "n1", &[0])));
        index.change_pods(Change::Applied(bound("two", "n1", &[1])));
        assert!(fits(&index, "n1", 4) && !fits(&index, "n1", 5));
        index.change_pods(end);
        assert!(!fits(&index, "n1", ALL), "the other pod holds on");
        index.change_pods(Change::Gone("two".to_owned()));
        assert!(fits(&index, "n1", ALL));
        assert!(index.pod("one").is_none() && index.pod("two").is_none());
    }
}

#[test]
fn a_changed_record_counts_from_then_on() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    index.change_pods(Change::Applied(bound("two", "n1", &[5])));
    assert!(fits(&index, "n1", 4));
    index.change_pods(Change::Applied(bound("one", "n1", &[2])));
    assert!(!fits(&index, "n1", 3), "0, 1 and 3, 4 are left");
}

#[test]
fn a_pod_is_pending_until_it_is_bound() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(pod("one", 1)));
    let (found, node) = index.pod("one").unwrap();
    assert_eq!((found.name(), node), ("one", None));
    assert!(fits(&index, "n1", ALL));
    index.change_pods(Change::Applied(bound("zero", "n1", &[5])));
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    let (found, node) = index.pod("one").unwrap();
    assert_eq!((found.name(), node), ("one", Some("n1")));
    index.change_pods(Change::Gone("one".to_owned()));
    assert!(index.pod("one").is_none());
    index.change_pods(Change::Applied(pod("two", 1)));
    index.change_pods(Change::Gone("two".to_owned()));
    assert!(index.pod("two").is_none());
}

#[test]
fn what_a_list_does_not_have_is_gone() {
    let mut index = index_of(&[("n1", "inf2.24xlarge"), ("n2", "inf2.24xlarge")]);
    for change in [bound("stays", "n1", &[0]), bound("goes", "n1", &[1]), pod("waits", 1), pod("waited", 1)] {
        index.change_pods(Change::Applied(change));
    }
    let listed = vec![bound("stays", "n1", &[0]), pod("waits", 1), bound("comes", "n2", &[0, 1])];
    index.change_pods(Change::Listed(listed));
    assert!(fits(&index, "n1", 5) && !fits(&index, "n1", ALL));
    assert!(fits(&index, "n2", 4) && !fits(&index, "n2", 5));
    let known = ["stays", "goes", "waits", "waited", "comes"].map(|uid| index.pod(uid).is_some());
    assert_eq!(known, [true, false, true, false, true]);

    index.change_nodes(Change::Listed(vec![node("n2", "inf2.24xlarge"), node("n3", "inf2.xlarge")]));
    let mut nodes: Vec<&str> = index.views().map(|view| &*view.name).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, ["n2", "n3"]);
    assert!(index.view("n1").is_none());
    assert!(!fits(&index, "n2", 5), "its pods are known all the same");
    index.change_nodes(Change::Applied(node("n1", "inf2.24xlarge")));
    assert!(!fits(&index, "n1", ALL), "and those of a node that comes back");
}

#[test]
fn a_node_changes_and_goes() {
    let mut index = index_of(&[("n1", "inf2.xlarge")]);
    assert!(!fits(&index, "n1", 2));
    index.change_nodes(Change::Applied(node("n1", "inf2.24xlarge")));
    assert!(fits(&index, "n1", ALL));
    index.change_nodes(Change::Gone("n1".to_owned()));
    assert!(index.view("n1").is_none());
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    assert!(index.view("n1").is_none(), "a pod on a node that is not known");
}

#[test]
fn what_changed_is_to_be_explained_once() {
    let mut index = index();
    assert!(!index.has_unexplained());
    index.change_nodes(Change::Listed(vec![node("n1", "inf2.24xlarge"), node("web", "m5.large")]));
    assert!(index.has_unexplained());
    assert_eq!(names(&index.take_unexplained().nodes), "n1 web");
    assert!(!index.has_unexplained());
    index.change_nodes(Change::Applied(node("n1", "inf2.24xlarge")));
    assert!(!index.has_unexplained(), "the same node again");

    index.change_pods(Change::Applied(pod("fresh", 1)));
    assert!(!index.has_unexplained(), "kube-scheduler has not tried it yet");
    index.change_pods(Change::Applied(unschedulable("waits")));
    assert!(index.has_unexplained());
    let Unexplained { nodes, pods, .. } = index.take_unexplained();
    assert_eq!((names(&nodes), names(&pods)), (String::new(), "waits".to_owned()));

    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    assert!(index.has_unexplained());
    let Unexplained { nodes, pods, .. } = index.take_unexplained();
    assert_eq!((names(&nodes), names(&pods)), ("n1".to_owned(), String::new()));
    index.change_pods(Change::Applied(bound("one", "n1", &[0])));
    assert!(!index.has_unexplained(), "the same pod again");
    reserve(&mut index, "two", "n1", 2, 2);
    assert!(!index.has_unexplained(), "a reservation says nothing about holders");
}

#[test]
fn every_unschedulable_pod_is_to_be_explained_again_when_topologies_change() {
    let mut index = index_of(&[("n1", "inf2.24xlarge"), ("web", "m5.large")]);
    for change in [unschedulable("a"), unschedulable("b"), pod("fresh", 1)] {
        index.change_pods(Change::Applied(change));
    }
    index.take_unexplained();
    let mut explained_after = |change| {
        index.change_nodes(change);
        let has_unexplained = index.has_unexplained();
        let pods = names(&index.take_unexplained().pods);
        assert_eq!(has_unexplained, !pods.is_empty());
        pods
    };
    assert_eq!(explained_after(Change::Applied(node("n2", "trn1.32xlarge"))), "a b", "one comes");
    assert_eq!(explained_after(Change::Applied(node("n2", "inf2.48xlarge"))), "a b", "one changes");
    assert_eq!(explained_after(Change::Gone("n2".to_owned())), "a b", "one goes");
    assert_eq!(explained_after(Change::Gone("web".to_owned())), "", "one without devices goes");
    assert_eq!(explained_after(Change::Listed(Vec::new())), "a b", "the last one is not listed");
}

#[test]
fn a_node_whose_topology_is_not_known_takes_nothing() {
    let mut index = index_of(&[("web", "m5.large"), ("neuron", "inf2.24xlarge")]);
    let bare = ObservedNode { instance_type: None, ..node("bare", "") };
    let broken =
        ObservedNode { report: Some(ObservedNode::read_report("{")), ..node("broken", "inf2.24xlarge") };
    index.change_nodes(Change::Applied(bare));
    index.change_nodes(Change::Applied(broken));
    let told = |name: &str| {
        let view = index.view(name).unwrap();
        let refusal = view.fits(&mut EqualNodes::new(&request(1))).err();
        assert_eq!(view.takes_pods().err(), refusal);
        assert_eq!(view.topology().is_some(), refusal.is_none());
        (view.is_neuron(), refusal.map(|refusal| refusal.is_permanent()))
    };
    assert_eq!(told("neuron"), (true, None));
    assert_eq!(told("web"), (false, Some(true)));
    assert_eq!(told("bare"), (false, Some(true)));
    assert_eq!(told("broken"), (true, Some(false)), "the report may be put right");
}

#[test]
fn an_unknown_holder_closes_the_node_but_for_what_it_could_never_take() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    let by_hand = |name: &str| ObservedPod { node: Some("n1".into()), ..pod(name, 1) };
    index.change_pods(Change::Applied(by_hand("b")));
    index.change_pods(Change::Applied(by_hand("a")));
    let view = index.view("n1").unwrap();
    let unknown = NodeRefusal::UnknownHolder { pods: "default/a, default/b".to_owned() };
    assert_eq!(view.fits(&mut EqualNodes::new(&request(1))), Err(unknown.clone()));
    assert_eq!(view.fits(&mut EqualNodes::new(&request(5))), Err(unknown.clone()));
    assert!(unknown.is_indeterminate() && !unknown.is_permanent());
    let never = view.fits(&mut EqualNodes::new(&request(7))).unwrap_err();
    assert!(never.is_permanent() && !never.is_indeterminate(), "{never}");
    assert_eq!(view.takes_pods().unwrap_err(), unknown);
    // Where what is known leaves no room, it does not matter what the unknown holder has: preemption and autoscalers are to know.
    index.change_pods(Change::Applied(bound("full", "n1", &[0, 1, 2, 3, 4, 5])));
    let full = index.view("n1").unwrap().fits(&mut EqualNodes::new(&request(1))).unwrap_err();
    assert!(full.to_string().contains("asked 1, free 0 of 6") && !full.is_indeterminate(), "{full}");
}

#[test]
fn a_place_is_chosen_beside_what_is_held_and_reserved() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(bound("zero", "n1", &[0])));
    reserve(&mut index, "one", "n1", 2, 2);
    let view = index.view("n1").unwrap();
    let occupancy = view.takes_pods().unwrap();
    assert_eq!(place(&request(2), occupancy).unwrap().hardware(occupancy.topology()), CoreSet::run(4, 4));
    assert!(place(&request(5), occupancy).is_err());
    assert!(view.is_still(&occupancy.clone()));
}

#[test]
fn a_record_of_a_pod_is_one_that_is_read_and_counts() {
    let mut index = index_of(&[("n1", "inf2.24xlarge"), ("web", "m5.large")]);
    let pods = [bound("first", "n1", &[0]), bound("second", "n1", &[0]), bound("other", "n2", &[1])];
    for pod in &pods {
        index.change_pods(Change::Applied(ObservedPod { node: Some("n1".into()), ..pod.clone() }));
    }
    let records = |node: &str| {
        let view = index.view(node).unwrap();
        pods.each_ref().map(|pod| (view.reads_record_of(&pod.pod), view.has_record_of(&pod.pod)))
    };
    // The second one overlaps the first, the third one names another node.
    assert_eq!(records("n1"), [(true, true), (true, false), (false, false)]);
    assert_eq!(records("web"), [(false, false); 3]);
    let none = pod("none", 1);
    assert!(!index.view("n1").unwrap().reads_record_of(&none.pod));
}

#[test]
fn a_refusal_is_permanent_where_no_end_of_a_pod_lifts_it() {
    let index = index_of(&[("n1", "inf2.24xlarge")]);
    let refusal =
        |devices| index.view("n1").unwrap().fits(&mut EqualNodes::new(&request(devices))).unwrap_err();
    assert!(refusal(7).is_permanent());
    assert!(NodeRefusal::UnknownNode.is_indeterminate(), "kube-scheduler has seen it before");
    assert!(!NodeRefusal::UnknownNode.is_no_neuron_node());
    let disagree = NodeTopologyError::Disagree { label: "a".to_owned(), report: "b".to_owned() };
    let disagree = NodeRefusal::Topology(disagree);
    assert!(!disagree.is_no_neuron_node() && !disagree.is_permanent());
    assert!(NodeRefusal::from(PodRequest::of(&spec_of("500m")).unwrap_err()).is_permanent());
    assert!(!NodeRefusal::Report("broken".to_owned()).is_permanent());
}

#[test]
fn who_explains_pods_hears_of_a_waiting_one_that_is_gone() {
    let mut index = index_of(&[("n1", "inf2.24xlarge")]);
    index.change_pods(Change::Applied(unschedulable("p")));
    index.take_unexplained();
    index.change_pods(Change::Gone("p".to_owned()));
    assert!(index.has_unexplained());
    assert_eq!(index.take_unexplained().pods, BTreeSet::from(["p".to_owned()]));
}
