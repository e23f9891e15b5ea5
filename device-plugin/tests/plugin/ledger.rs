//! The ledger by itself: who may have which ids, and when they are free again.

use std::sync::Arc;
use std::time::Duration;

use neuron_core::catalog::Catalog;
use neuron_core::ids::CoreSet;
use neuron_core::names::Resource::{self, Core, Device};
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_core::occupancy::Occupancy;
use neuron_core::request::Role;
use neuron_core::topology::{Policy, Topology};
use neuron_device_plugin::ledger::answer::Asked;
use neuron_device_plugin::ledger::holders::Trust;
use neuron_device_plugin::ledger::preference::Question;
use neuron_device_plugin::ledger::slot::Slot;
use neuron_device_plugin::ledger::{Entry, Ledger, Life, Pods};
use rstest::rstest;
use tokio::time::Instant;

/// A UID that kubelet makes of a static pod's manifest.
const STATIC: &str = "0123456789abcdef0123456789abcdef";

fn set(ids: &str) -> CoreSet {
    ids.parse().unwrap()
}

fn name(resource: Resource) -> &'static str {
    match resource {
        Device => NEURON,
        Core => NEURONCORE,
    }
}

/// A slot of a pod with one core for each device, so that both names count alike.
fn slot(pod: &str, resource: Resource, count: u32, recorded: &str) -> Slot {
    Slot {
        uid: pod.to_owned(),
        kubelet_uid: pod.to_owned(),
        pod: format!("default/{pod}"),
        container: "main".to_owned(),
        role: Role::App,
        resource,
        count,
        recorded: (!recorded.is_empty()).then(|| set(recorded)),
        started: false,
    }
}

fn init(pod: &str, resource: Resource, count: u32, recorded: &str) -> Slot {
    Slot { container: "init".to_owned(), role: Role::Init, ..slot(pod, resource, count, recorded) }
}

fn started(slot: Slot) -> Slot {
    Slot { started: true, ..slot }
}

fn entry(pod: &str, container: &str, resource: Resource, cores: &str) -> Entry {
    let (uid, container) = (pod.to_owned(), container.to_owned());
    Entry { uid, container, name: name(resource), resource, cores: set(cores) }
}

/// A ledger, the node's pods and the time.
struct Node {
    ledger: Ledger,
    slots: Vec<Slot>,
    gone: Vec<&'static str>,
    now: Instant,
    read_live: Option<Instant>,
}

impl Node {
    fn new(slots: Vec<Slot>) -> Self {
        let mut node =
            Self { ledger: Ledger::default(), slots, gone: vec![], now: Instant::now(), read_live: None };
        node.follow();
        node
    }

    fn follow(&mut self) {
        let (slots, gone) = (&self.slots, &self.gone);
        let life = |uid: &str| match uid {
            _ if slots.iter().any(|slot| slot.kubelet_uid == uid) => Life::Lives,
            _ if gone.contains(&uid) => Life::Gone,
            _ => Life::Unseen,
        };
        let pods = Pods { slots: Some(slots), life: &life, read_live: self.read_live, told: None };
        self.ledger.follow(&pods, self.now);
    }

    fn after(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
        self.follow();
    }

    /// The pods are read live, a moment later.
    fn read_live(&mut self) {
        self.now += Duration::from_millis(1);
        self.read_live = Some(self.now);
        self.follow();
    }

    fn written(&mut self, entries: &[Entry]) {
        self.ledger.checkpoint(entries.to_vec(), self.now);
        self.follow();
    }

    fn ends(&mut self, pod: &'static str) {
        self.slots.retain(|slot| slot.uid != pod);
        self.gone.push(pod);
        self.follow();
    }

    /// Answers an Allocate, or says who stands in the way.
    fn asked(&mut self, resource: Resource, cores: &str) -> String {
        let cores = set(cores);
        let asked = Asked { name: name(resource), resource, cores, count: cores.len() };
        let holders = self.ledger.holders(&self.slots, &asked);
        if holders.is_empty() {
            self.ledger.answer(&asked, self.now);
            return "given".to_owned();
        }
        let texts = holders.iter().map(|holder| format!("{} has {}", holder.who, holder.cores));
        texts.collect::<Vec<_>>().join(", ")
    }

    fn offered(&self, count: u32, available: &str, must: &str) -> Option<CoreSet> {
        let (available, must) = (set(available), set(must));
        let question =
            Question { name: NEURON, resource: Device, count, available, must, trust: Trust::Nobody };
        self.ledger.offer(&self.slots, &question)
    }
}

#[rstest]
#[case::earliest_first("0,1,2,3", "", Some("0,1"))]
#[case::taken_already("2,3,4,5", "", Some("2,3"))]
#[case::handed_down("0,1,2,3", "2", Some("2,3"))]
#[case::no_record_fits("0,2,4", "", None)]
fn the_recorded_set_is_offered(#[case] available: &str, #[case] must: &str, #[case] offered: Option<&str>) {
    let node = Node::new(vec![
        slot("p", Device, 2, "0,1"),
        slot("q", Device, 2, "2,3"),
        slot("other", Core, 2, "4,5"),
    ]);
    assert_eq!(node.offered(2, available, must), offered.map(set));
}

#[test]
fn the_next_container_of_a_pod_amid_its_admission_comes_before_other_pods() {
    // A pod that asks under both names has no time of its own, and so stands before the one that kubelet admits.
    let first = Slot { container: "first".to_owned(), role: Role::Sidecar, ..slot("p", Device, 1, "0") };
    let mut node = Node::new(vec![
        slot("q", Device, 1, "1"),
        first,
        init("p", Device, 1, "4"),
        slot("p", Device, 2, "4,5"),
    ]);
    node.written(&[entry("p", "first", Device, "0")]);
    assert_eq!(node.offered(1, "1,4,5", ""), Some(set("4")));
    node.written(&[entry("p", "first", Device, "0"), entry("p", "init", Device, "4")]);
    assert_eq!(node.offered(1, "1,5", ""), Some(set("1")), "nothing of p asks for one any more");
}

#[test]
fn without_a_record_an_init_container_gets_what_its_main_container_can_keep() {
    let model = Catalog::embedded().find("inf2.48xlarge").unwrap();
    let topology = Arc::new(Topology::of(model, 1, Policy::Documented).unwrap());
    // Devices 0 to 3 are held, and 8: of 4 to 7 and 9 to 11 the latter hit fewer linked sets.
    let mut occupancy = Occupancy::empty(topology);
    occupancy.hold(set("0,1,2,3,4,5,6,7,16,17"));
    let mut node = Node::new(vec![init("p", Device, 2, ""), slot("p", Device, 4, "")]);
    let best = |node: &Node, count, available: &str, must: &str| {
        let (available, must) = (set(available), set(must));
        let question =
            Question { name: NEURON, resource: Device, count, available, must, trust: Trust::Nobody };
        node.ledger.amid_admission(&node.slots, &question)?.best_set(&question, &occupancy)
    };
    let free = "8,9,10,11,12,13,14,15,18,19,20,21,22,23";
    let given = best(&node, 2, free, "").unwrap();
    assert!(given.is_subset(set("8,9,10,11,12,13,14,15")), "{given}");
    assert_eq!(best(&node, 4, free, ""), None, "the init container comes first");
    node.written(&[entry("p", "init", Device, &given.to_string())]);
    let free = set(free).difference(given).to_string();
    assert_eq!(best(&node, 4, &free, &given.to_string()), Some(set("8,9,10,11,12,13,14,15")));
    node.slots.truncate(1);
    assert_eq!(best(&node, 2, &free, ""), None, "nothing comes after it");
}

#[test]
fn of_swapped_pods_the_set_that_nobody_took_is_offered_to_the_last() {
    let mut node =
        Node::new(vec![slot("p", Device, 1, "0"), slot("q", Device, 1, "1"), slot("r", Device, 1, "2")]);
    // kubelet admits r first.
    assert_eq!(node.offered(1, "0,1,2,3", ""), Some(set("0")));
    node.written(&[entry("r", "main", Device, "0")]);
    assert_eq!(node.offered(1, "1,2,3", ""), Some(set("1")));
    node.written(&[entry("r", "main", Device, "0"), entry("p", "main", Device, "1")]);
    // Whoever comes last: the records together say what is taken, and 3 may be placed on meanwhile.
    assert_eq!(node.offered(1, "2,3", ""), Some(set("2")));
    assert_eq!(node.offered(1, "3", ""), None);
}

#[test]
fn a_record_is_not_offered_while_another_pod_holds_any_of_it() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), slot("cores", Core, 1, "")]);
    node.written(&[entry("cores", "main", Core, "1")]);
    assert_eq!(node.offered(2, "0,1,2,3", ""), None);
    node.ends("cores");
    assert_eq!(node.offered(2, "0,1,2,3", ""), Some(set("0,1")));
}

#[test]
fn who_trusts_kubelet_is_offered_what_it_takes_for_free_under_its_own_name() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), started(slot("ending", Device, 1, "1"))]);
    node.written(&[entry("ending", "main", Device, "1")]);
    let offer = |node: &Node, trust| {
        let (available, must) = (set("0,1,2"), CoreSet::EMPTY);
        node.ledger.offer(
            &node.slots,
            &Question { name: NEURON, resource: Device, count: 2, available, must, trust },
        )
    };
    assert_eq!((offer(&node, Trust::Nobody), offer(&node, Trust::Kubelet)), (None, Some(set("0,1"))));
    node.written(&[entry("ending", "main", Core, "1")]);
    assert_eq!(offer(&node, Trust::Kubelet), None, "of the other name kubelet says nothing");
}

#[test]
fn a_record_that_cannot_be_offered_stands_not_in_its_own_pods_way() {
    let node =
        Node::new(vec![slot("p", Device, 2, "1,2"), slot("q", Device, 3, "5,6,7"), slot("r", Core, 1, "9")]);
    // kubelet has given 2 to somebody who has not ended as far as it knows.
    let (available, must) = (set("0,1,3,4,5,6,7"), CoreSet::EMPTY);
    let question =
        Question { name: NEURON, resource: Device, count: 2, available, must, trust: Trust::Nobody };
    assert_eq!(node.ledger.offer(&node.slots, &question), None);
    assert_eq!(node.ledger.taken(&node.slots, &question), set("5,6,7,9"));
}

#[test]
fn what_another_pods_record_promises_is_the_asking_pods_once_it_is_handed_down() {
    // The init container of `p` was given what the record of `q` says, which asks for as much.
    let mut node =
        Node::new(vec![init("p", Device, 1, "0"), slot("p", Device, 2, "0,1"), slot("q", Device, 1, "2")]);
    node.written(&[entry("p", "init", Device, "2")]);
    let (available, must) = (set("0,1,2,3"), set("2"));
    let question =
        Question { name: NEURON, resource: Device, count: 2, available, must, trust: Trust::Nobody };
    assert_eq!(node.ledger.taken(&node.slots, &question), CoreSet::EMPTY);
}

#[test]
fn what_kubelet_has_written_down_is_held_under_both_names_until_its_pod_has_ended() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0,1"), "given");
    node.written(&[entry("p", "main", Device, "0,1")]);
    // What kubelet does when it forgot an open allocation.
    assert_eq!(node.asked(Device, "1"), "pod default/p has 1");
    assert_eq!(node.asked(Core, "1"), "pod default/p has 1");
    // A checkpoint shows an ended pod's ids until the next allocation.
    node.ends("p");
    assert_eq!(node.asked(Core, "1"), "given");
}

#[test]
fn an_answer_that_is_not_written_down_blocks_the_other_name_alone() {
    let mut node = Node::new(vec![slot("p", Device, 2, "0,1"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0,1"), "given");
    let unwritten = "a container that kubelet has not written down yet has 1";
    assert_eq!(node.asked(Core, "1"), unwritten);
    // Never by time alone, while there is a container that can have got it.
    node.after(3600);
    node.read_live();
    assert_eq!(node.asked(Core, "1"), unwritten);
    assert_eq!(node.asked(Device, "1"), "given", "kubelet's word counts under its own name");
    assert_eq!(node.ledger.answers().len(), 2, "of the first answer one device is left");
}

#[test]
fn an_answer_ends_with_kubelet_which_has_given_it_to_nobody() {
    let mut node = Node::new(vec![slot("p", Device, 1, "0"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0"), "given");
    node.ledger.kubelet_restarted();
    assert_eq!(node.asked(Core, "0"), "given");
}

#[test]
fn an_answer_ends_when_a_live_list_shows_nobody_who_can_have_got_it() {
    let mut node = Node::new(vec![slot("p", Device, 1, "0"), slot("cores", Core, 1, "")]);
    assert_eq!(node.asked(Device, "0"), "given");
    node.ends("p");
    assert_ne!(node.asked(Core, "0"), "given", "a pod that the watch does not show yet may have got it");
    node.read_live();
    node.after(2);
    assert_eq!(node.asked(Core, "0"), "given");
}

#[test]
fn an_answer_is_not_ended_by_what_an_ended_pod_had() {
    let mut node = Node::new(vec![
        slot("first", Device, 1, "0"),
        slot("second", Device, 1, "0"),
        slot("cores", Core, 1, ""),
    ]);
    let first = entry("first", "main", Device, "0");
    node.written(std::slice::from_ref(&first));
    node.ends("first");
    assert_eq!(node.asked(Device, "0"), "given", "to the second");
    // A list change at the same moment overwrites the file with what was before.
    node.written(&[first]);
    assert_eq!(node.asked(Core, "0"), "a container that kubelet has not written down yet has 0");
    node.written(&[entry("second", "main", Device, "0")]);
    assert_eq!(node.asked(Core, "0"), "pod default/second has 0");
    assert_eq!(node.ledger.answers(), []);
}

#[test]
fn a_pod_takes_over_the_ids_of_its_own_init_container_while_another_container_waits() {
    let mut node = Node::new(vec![
        init("p", Device, 4, "0,1,2,3"),
        slot("p", Device, 2, "0,1"),
        slot("q", Device, 3, "4,5,6"),
        slot("cores", Core, 1, ""),
    ]);
    assert_eq!(node.asked(Device, "0,1,2,3"), "given");
    let init = entry("p", "init", Device, "0,1,2,3");
    node.written(std::slice::from_ref(&init));
    assert_eq!(node.asked(Core, "3"), "pod default/p has 3");
    assert_eq!(node.asked(Device, "0,3"), "given");
    node.written(&[init, entry("p", "main", Device, "0,3")]);
    assert_eq!(node.asked(Device, "1"), "pod default/p has 1", "nothing of p waits any more");
    assert_eq!(node.asked(Core, "1"), "pod default/p has 1");
}

#[test]
fn a_lost_checkpoint_leaves_the_records_of_what_has_started() {
    let mut node = Node::new(vec![
        started(slot("runs", Device, 1, "0")),
        slot("waits", Device, 1, "1"),
        started(slot("unrecorded", Device, 1, "")),
    ]);
    node.written(&[entry("runs", "main", Device, "0"), entry("unrecorded", "main", Device, "2")]);
    node.written(&[]);
    assert_eq!(node.asked(Device, "0"), "pod default/runs has 0");
    assert_eq!(node.asked(Core, "0"), "pod default/runs has 0");
    assert_eq!(node.asked(Core, "1"), "given", "a record of what has not started only steers");
    let said: Vec<_> = node.slots.iter().map(|slot| node.ledger.cores_of(slot)).collect();
    assert_eq!(said, [Some(set("0")), None, None], "the report goes on to say what has started");
}

#[test]
fn a_uid_that_no_list_has_shown_lives_until_one_must_have() {
    let mut node = Node::new(vec![slot("cores", Core, 1, "")]);
    node.written(&[entry("unseen", "main", Device, "0"), entry(STATIC, "main", Device, "1")]);
    let who = |uid: &str| format!("the pod with UID {uid}, which the API server does not show,");
    assert_eq!(node.asked(Core, "0,1"), format!("{} has 0, {} has 1", who("unseen"), who(STATIC)));
    node.read_live();
    assert_eq!(node.asked(Core, "0"), "given", "kubelet hears of pods from the API server");
    assert_eq!(node.asked(Core, "1"), format!("{} has 1", who(STATIC)), "a static pod has no mirror yet");
    node.after(61);
    assert_ne!(node.asked(Core, "1"), "given", "by time alone nothing ends");
    node.read_live();
    assert_eq!(node.asked(Core, "1"), "given");
}

#[test]
fn containers_of_a_pod_that_kubelet_admits_though_it_is_gone_share_nothing() {
    let mut node = Node::new(vec![]);
    node.written(&[]);
    node.ends("late");
    assert_eq!(node.asked(Core, "0"), "given");
    node.read_live();
    assert_ne!(node.asked(Device, "0"), "given", "kubelet has not written it down yet");
    node.written(&[entry("late", "c0", Core, "0")]);
    assert_ne!(node.asked(Device, "0"), "given", "kubelet has not heard of the end yet");
    node.after(2);
    assert_eq!(node.asked(Device, "0"), "given", "nobody is kept waiting for it until a question is refused");
}

#[test]
fn before_the_pods_were_read_every_uid_lives_under_the_other_name() {
    let mut ledger = Ledger::default();
    ledger.checkpoint(vec![entry("p", "main", Device, "0")], Instant::now());
    ledger
        .follow(&Pods { slots: None, life: &|_| Life::Unseen, read_live: None, told: None }, Instant::now());
    let holders = |resource| {
        let asked = Asked { name: name(resource), resource, cores: set("0"), count: 1 };
        ledger.holders(&[], &asked).len()
    };
    assert_eq!((holders(Core), holders(Device)), (1, 0));
}

#[test]
fn what_a_pod_had_is_remembered_until_another_one_is_given_it() {
    let mut node = Node::new(vec![started(slot("unwritten", Core, 1, "7"))]);
    let gone = |node: &Node, cores: &str| {
        let life = |uid: &str| if node.gone.contains(&uid) { Life::Gone } else { Life::Lives };
        let gone = node.ledger.gone_holders(set(cores), life).into_iter();
        gone.map(|(uid, had)| format!("{uid} had {had}")).collect::<Vec<_>>()
    };
    node.written(&[entry("a", "main", Core, "0,1"), entry("b", "main", Core, "2")]);
    assert_eq!(gone(&node, "0,1,2,3,4,5,6,7"), [""; 0], "they live");
    node.ends("a");
    node.ends("unwritten");
    // kubelet has dropped it, and restarts without its file.
    node.written(&[]);
    node.ledger.kubelet_restarted();
    assert_eq!(gone(&node, "1,2,7"), ["a had 1", "unwritten had 7"]);
    assert_eq!(gone(&node, "2,3,4,5,6"), [""; 0]);
    node.ledger.handed_over([&"a".to_owned()].into_iter(), set("1"));
    assert_eq!(gone(&node, "0,1,2,3,4,5,6,7"), ["a had 0", "unwritten had 7"]);
    assert_eq!(node.ledger.past_count(), 3);
    node.ledger.handed_over([&"a".to_owned()].into_iter(), set("0"));
    assert_eq!(node.ledger.past_count(), 2);
}
