//! The ledger by itself: who may have which ids, and when they are free again.

use neuron_core::ids::CoreSet;
use neuron_core::names::Resource::{self, Core, Device};
use neuron_core::request::Role;
use neuron_device_plugin::ledger::Ledger;
use neuron_device_plugin::ledger::judge::Judgement;
use neuron_device_plugin::ledger::reconcile::Real;
use neuron_device_plugin::ledger::slot::Slot;
use rstest::rstest;

fn set(ids: &str) -> CoreSet {
    ids.parse().unwrap()
}

/// A slot of a pod with one core for each device, so that both names count alike.
fn slot(pod: &str, resource: Resource, count: u32, recorded: &str) -> Slot {
    Slot {
        uid: pod.to_owned(),
        pod: format!("default/{pod}"),
        container: "main".to_owned(),
        role: Role::App,
        resource,
        count,
        recorded: (!recorded.is_empty()).then(|| set(recorded)),
        admitted: false,
    }
}

fn init(pod: &str, resource: Resource, count: u32, recorded: &str) -> Slot {
    Slot { container: "init".to_owned(), role: Role::Init, ..slot(pod, resource, count, recorded) }
}

fn real(pod: &str, resource: Resource, cores: &str) -> Real {
    let (uid, container) = (Some(pod.to_owned()), "main".to_owned());
    Real { uid, container, resource, cores: set(cores), count: set(cores).len() }
}

/// Answers an Allocate; the pod it is taken to be for, or who stands in the way.
fn allocate(ledger: &mut Ledger, slots: &[Slot], resource: Resource, cores: &str) -> String {
    let cores = set(cores);
    match ledger.judge(slots, resource, cores, cores.len()) {
        Judgement::Allowed(owner) => {
            ledger.allocate(resource, cores, cores.len(), owner);
            owner.map_or("somebody", |slot| slot.uid.as_str()).to_owned()
        }
        Judgement::Held { holders, .. } => {
            holders.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
        }
    }
}

#[rstest]
#[case::earliest_first("0,1,2,3", "", Some("0,1"))]
#[case::taken_already("2,3,4,5", "", Some("2,3"))]
#[case::handed_down("0,1,2,3", "2", Some("2,3"))]
#[case::no_record_fits("0,2,4", "", None)]
fn the_recorded_set_is_offered(#[case] available: &str, #[case] must: &str, #[case] offered: Option<&str>) {
    let slots = [slot("p", Device, 2, "0,1"), slot("q", Device, 2, "2,3"), slot("other", Core, 2, "4,5")];
    let offer = Ledger::default().offer(&slots, Device, 2, set(available), set(must));
    assert_eq!(offer, offered.map(set));
}

#[test]
fn a_pod_that_got_something_else_is_not_offered_its_record_again() {
    let mut ledger = Ledger::default();
    let slots = [slot("p", Device, 2, "0,1"), slot("q", Device, 2, "2,3")];
    ledger.reconcile(&slots, &[real("p", Device, "4,5")], 0, true);
    assert_eq!(ledger.offer(&slots, Device, 2, set("0,1,2,3"), CoreSet::EMPTY), Some(set("2,3")));
}

#[test]
fn of_swapped_pods_the_set_that_nobody_took_is_offered_to_the_last() {
    let mut ledger = Ledger::default();
    let mut slots = [slot("p", Device, 1, "0"), slot("q", Device, 1, "1"), slot("r", Device, 1, "2")];
    // kubelet admits r first, and its books are read before it asks again.
    assert_eq!(allocate(&mut ledger, &slots, Device, "0"), "p");
    slots[2].admitted = true;
    ledger.reconcile(&slots, &[real("r", Device, "0")], ledger.now(), true);
    assert_eq!(ledger.offer(&slots, Device, 1, set("1,2,3"), CoreSet::EMPTY), Some(set("1")));
    assert_eq!(allocate(&mut ledger, &slots, Device, "1"), "q");
    // Whoever comes last: the records together say what is taken, and 3 may be placed on meanwhile.
    assert_eq!(ledger.offer(&slots, Device, 1, set("2,3"), CoreSet::EMPTY), Some(set("2")));
    assert_eq!(ledger.offer(&slots, Device, 1, set("3"), CoreSet::EMPTY), None);
}

#[rstest]
#[case::the_recorded_one("0,1", "p")]
#[case::an_equal_pods("2,3", "q")]
#[case::free_ones_for_either("8,9", "somebody")]
#[case::held_by_record_under_the_other_name("4,5", "pod default/cores")]
#[case::partly_promised_to_others("1,4", "pod default/cores")]
fn who_an_allocate_is_for(#[case] ids: &str, #[case] answer: &str) {
    let slots = [slot("p", Device, 2, "0,1"), slot("q", Device, 2, "2,3"), slot("cores", Core, 3, "4,5,6")];
    assert_eq!(allocate(&mut Ledger::default(), &slots, Device, ids), answer);
}

#[test]
fn ids_given_out_are_refused_under_either_name_until_their_pod_has_ended() {
    let mut ledger = Ledger::default();
    let p = slot("p", Device, 2, "0,1");
    let all = [p.clone(), slot("q", Device, 2, "2,3"), slot("cores", Core, 1, "")];
    assert_eq!(allocate(&mut ledger, &all, Device, "0,1"), "p");
    // What kubelet does when it forgot an open allocation.
    assert_eq!(allocate(&mut ledger, &all, Device, "0,1"), "pod default/p");
    assert_eq!(allocate(&mut ledger, &all, Core, "1"), "pod default/p");
    ledger.reconcile(&all, &[], ledger.now(), true);
    assert_eq!(allocate(&mut ledger, &all, Core, "1"), "pod default/p", "absence there frees nothing");

    ledger.reconcile(&all, &[real("p", Device, "0,1")], ledger.now(), true);
    ledger.release(&all[1..]);
    assert_eq!(allocate(&mut ledger, &all[1..], Core, "1"), "cores");
}

#[test]
fn a_pod_that_runs_was_given_what_an_equal_pod_that_waits_seemed_to_get() {
    let mut ledger = Ledger::default();
    let mut slots = [slot("left", Device, 2, "0,1"), slot("right", Device, 2, "2,3")];
    assert_eq!(allocate(&mut ledger, &slots, Device, "0,1"), "left", "whose record says so");
    // kubelet had asked for `right`; nobody could look into its books before it asks for `left`.
    slots[1].admitted = true;
    ledger.follow_admission(&slots);
    assert_eq!(allocate(&mut ledger, &slots, Device, "2,3"), "left");
}

#[test]
fn the_record_of_a_pod_that_runs_with_something_else_stands_in_nobodys_way() {
    let mut ledger = Ledger::default();
    let mut slots =
        [("a", "0"), ("b", "1"), ("c", "2"), ("d", "3")].map(|(pod, id)| slot(pod, Device, 1, id));
    let runs = |ledger: &mut Ledger, slots: &mut [Slot], at: usize| {
        slots[at].admitted = true;
        ledger.follow_admission(slots);
    };
    assert_eq!(allocate(&mut ledger, &slots, Device, "3"), "d", "kubelet had asked for a");
    // Advised to take a's set for b, kubelet does so; meanwhile a runs, with what d only seemed to get.
    runs(&mut ledger, &mut slots, 0);
    assert_eq!(allocate(&mut ledger, &slots, Device, "0"), "somebody");
    // Advised to take b's set for c, kubelet does so; meanwhile b runs.
    runs(&mut ledger, &mut slots, 1);
    assert_eq!(allocate(&mut ledger, &slots, Device, "1"), "somebody");
    runs(&mut ledger, &mut slots, 2);
    assert_eq!(allocate(&mut ledger, &slots, Device, "2"), "d");
    assert_eq!(ledger.held(&slots), set("0,1,2,3"));
    assert_eq!(allocate(&mut ledger, &slots, Device, "0"), "pod default/b", "what was given out stays held");
}

#[test]
fn what_a_running_pods_init_container_had_is_what_it_handed_down() {
    let mut ledger = Ledger::default();
    let mut slots = [
        init("p", Device, 1, "0"),
        slot("p", Device, 1, "0"),
        init("q", Device, 1, "1"),
        slot("q", Device, 1, "1"),
    ];
    // kubelet admits q, with what is recorded for p, and asks for p's init container.
    for (ids, seems) in [("0", "p"), ("0", "p"), ("1", "q")] {
        assert_eq!(allocate(&mut ledger, &slots, Device, ids), seems);
    }
    slots[2..].iter_mut().for_each(|slot| slot.admitted = true);
    ledger.follow_admission(&slots);
    assert_eq!(allocate(&mut ledger, &slots, Device, "1"), "p", "handed down by its own init container");
    let held = |at: usize| ledger.entry_of(&slots[at]).unwrap().cores;
    assert_eq!([held(0), held(1), held(2), held(3)], ["1", "1", "0", "0"].map(set));
}

#[test]
fn what_an_equal_pod_had_that_has_ended_is_given_again() {
    let mut ledger = Ledger::default();
    let both = [slot("p", Device, 2, "0,1"), slot("q", Device, 2, "2,3")];
    assert_eq!(allocate(&mut ledger, &both, Device, "0,1"), "p", "whose record says so");
    // kubelet had asked for q, which ended before anybody saw it run.
    let end = |ledger: &mut Ledger, ended: &Slot, rest: &[Slot]| {
        ledger.note_ended(std::slice::from_ref(ended));
        ledger.release(rest);
    };
    end(&mut ledger, &both[1], &both[..1]);
    assert_eq!(allocate(&mut ledger, &both[..1], Device, "0,1"), "p");
    assert_eq!(ledger.entries().len(), 1, "given anew, not twice");
    assert_eq!(allocate(&mut ledger, &both[..1], Device, "0,1"), "pod default/p", "one pod ended, not two");

    // One that ended before p was given anything explains nothing.
    let later = slot("later", Device, 2, "4,5");
    end(&mut ledger, &both[1], std::slice::from_ref(&later));
    assert_eq!(allocate(&mut ledger, std::slice::from_ref(&later), Device, "4,5"), "later");
    assert_eq!(allocate(&mut ledger, &[later], Device, "4,5"), "pod default/later");
}

#[test]
fn what_nobody_else_can_own_any_more_is_given_to_who_asks_for_it() {
    let mut ledger = Ledger::default();
    let both = [slot("p", Device, 2, "0,1"), slot("q", Device, 2, "2,3")];
    assert_eq!(allocate(&mut ledger, &both, Device, "8,9"), "somebody");
    // `p` has ended, `later` was bound before anybody looked into kubelet's books.
    let later = [slot("q", Device, 2, "2,3"), slot("later", Device, 2, "8,9")];
    ledger.release(&later);
    let unknown = "a container whose pod is not known yet";
    assert_eq!(allocate(&mut ledger, &later, Device, "8,9"), unknown, "which may be q's");
    let later = &later[1..];
    ledger.release(later);
    ledger.reconcile(later, &[], ledger.now(), true);
    assert_eq!(allocate(&mut ledger, later, Device, "8,9"), "later");
    assert_eq!(ledger.entries().len(), 1, "given anew, not twice");
}

#[test]
fn an_entry_whose_owner_was_assumed_stays_while_an_equal_pod_may_be_the_real_one() {
    let mut ledger = Ledger::default();
    let all = [slot("p", Device, 1, "0"), slot("q", Device, 1, "1"), slot("cores", Core, 1, "")];
    assert_eq!(allocate(&mut ledger, &all, Device, "0"), "p");
    assert_eq!(allocate(&mut ledger, &all, Device, "1"), "q");
    // p ends before kubelet's books were read: they may have been swapped.
    let rest = &all[1..];
    ledger.release(rest);
    assert_eq!(allocate(&mut ledger, rest, Core, "0"), "a container whose pod is not known yet");
    ledger.reconcile(rest, &[real("q", Device, "0")], ledger.now(), true);
    assert_eq!(ledger.held(rest), set("0"));
    assert_eq!(allocate(&mut ledger, rest, Core, "1"), "cores");
}

#[test]
fn a_pod_takes_over_the_ids_of_its_own_init_container_only() {
    let mut ledger = Ledger::default();
    let slots = [
        init("p", Device, 4, "0,1,2,3"),
        slot("p", Device, 2, "0,1"),
        slot("q", Device, 3, "4,5,6"),
        slot("cores", Core, 1, ""),
    ];
    assert_eq!(allocate(&mut ledger, &slots, Device, "0,1,2,3"), "p");
    assert_eq!(allocate(&mut ledger, &slots, Device, "0,1,3"), "pod default/p");
    assert_eq!(allocate(&mut ledger, &slots, Core, "3"), "pod default/p");
    assert_eq!(allocate(&mut ledger, &slots, Device, "0,3"), "p");
    assert_eq!(ledger.held(&slots[..2]), set("0,1,2,3"));
}

#[test]
fn init_entries_follow_the_pod_that_got_what_was_handed_down() {
    let mut ledger = Ledger::default();
    let slots = [
        init("p", Device, 2, "0,1"),
        slot("p", Device, 1, "0"),
        init("q", Device, 2, "2,3"),
        slot("q", Device, 1, "2"),
    ];
    for ids in ["0,1", "1", "2,3", "2"] {
        allocate(&mut ledger, &slots, Device, ids);
    }
    ledger.reconcile(&slots, &[real("q", Device, "1"), real("p", Device, "2")], ledger.now(), true);
    let held = |at: usize| ledger.entry_of(&slots[at]).unwrap().cores;
    assert_eq!([held(0), held(1), held(2), held(3)], ["2,3", "2", "0,1", "1"].map(set));
}

#[test]
fn what_an_init_container_only_seemed_to_get_is_the_pods_whose_kubelet_says_it_is() {
    let mut ledger = Ledger::default();
    let mut slots = vec![init("p", Device, 1, "0"), slot("q", Device, 1, "3")];
    // kubelet admits q first.
    assert_eq!(allocate(&mut ledger, &slots, Device, "0"), "p");
    assert_eq!(allocate(&mut ledger, &slots, Device, "3"), "q");
    slots.iter_mut().for_each(|slot| slot.admitted = true);
    // podresources lists no init container.
    ledger.reconcile(&slots, &[real("q", Device, "0")], ledger.now(), true);
    let has = |slot: &Slot| ledger.entry_of(slot).map(|entry| entry.cores);
    assert_eq!((has(&slots[0]), has(&slots[1])), (Some(set("3")), Some(set("0"))));
    assert_eq!(ledger.entries().len(), 2);
}

#[test]
fn init_entries_follow_the_pod_whose_other_container_was_asked_for_next() {
    let mut ledger = Ledger::default();
    // The cores are handed down to nobody: what the other container has is of another resource.
    let mut slots = vec![
        init("p", Core, 2, "0,1"),
        slot("p", Device, 1, "8"),
        init("q", Core, 2, "2,3"),
        slot("q", Device, 1, "9"),
    ];
    // kubelet admits q first.
    for (resource, ids) in [(Core, "0,1"), (Device, "8"), (Core, "2,3"), (Device, "9")] {
        allocate(&mut ledger, &slots, resource, ids);
    }
    slots.iter_mut().for_each(|slot| slot.admitted = true);
    for _ in 0..2 {
        ledger.reconcile(&slots, &[real("q", Device, "8"), real("p", Device, "9")], ledger.now(), true);
        ledger.follow_admission(&slots);
        let held = |at: usize| ledger.entry_of(&slots[at]).unwrap().cores;
        assert_eq!([held(0), held(1), held(2), held(3)], ["2,3", "9", "0,1", "8"].map(set));
    }
}

#[test]
fn what_was_not_asked_for_in_a_row_proves_nothing() {
    let mut ledger = Ledger::default();
    let mut slots = vec![init("p", Core, 2, "0,1"), slot("p", Device, 1, "8"), init("q", Core, 2, "2,3")];
    allocate(&mut ledger, &slots, Core, "0,1");
    // Read from kubelet's books, by a plugin that has just started: nobody saw when it was asked for.
    ledger.reconcile(&slots, &[real("p", Device, "8")], ledger.now(), true);
    allocate(&mut ledger, &slots, Core, "2,3");
    slots.iter_mut().for_each(|slot| slot.admitted = true);
    ledger.reconcile(&slots, &[real("p", Device, "8")], ledger.now(), true);
    let held = |at: usize| ledger.entry_of(&slots[at]).unwrap().cores;
    assert_eq!([held(0), held(2)], ["0,1", "2,3"].map(set));
}

#[test]
fn after_a_restart_kubelet_may_repeat_what_it_had_not_written_down() {
    let mut ledger = Ledger::default();
    let slots = [slot("p", Device, 1, "0"), slot("cores", Core, 1, "")];
    assert_eq!(allocate(&mut ledger, &slots, Device, "0"), "p");
    ledger.kubelet_restarted();
    assert_eq!(allocate(&mut ledger, &slots, Core, "0"), "pod default/p");
    assert_eq!(allocate(&mut ledger, &slots, Device, "1"), "p");
    assert_eq!(ledger.held(&slots), set("1"));
}

#[test]
fn what_nobody_can_own_is_free_but_only_by_a_fresh_pod_list() {
    let mut ledger = Ledger::default();
    ledger.allocate(Device, set("3"), 1, None);
    ledger.reconcile(&[], &[], ledger.now(), false);
    assert_eq!(ledger.held(&[]), set("3"));
    let before = ledger.now();
    ledger.allocate(Device, set("4"), 1, None);
    ledger.reconcile(&[], &[], before, true);
    assert_eq!(ledger.held(&[]), set("4"), "newer than what was read");
    let stranger = Real { uid: None, ..real("x", Device, "4") };
    ledger.reconcile(&[], &[stranger], ledger.now(), true);
    assert_eq!(ledger.held(&[]), set("4"), "kubelet still has it");
    ledger.reconcile(&[], &[], ledger.now(), true);
    assert_eq!(ledger.held(&[]), CoreSet::EMPTY);
}
