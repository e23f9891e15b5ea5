//! Faults in time: when they strike, when they end, and who lifts them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod breaking;
mod common;

use std::path::Path;
use std::time::{Duration, Instant};

use breaking::{now, torus};
use common::{modes, sysfs};
use fake_neuron::Machine;
use fake_neuron::fault::{Fault, FaultError, FaultSpec, Faults, Schedule, State, Stop};

#[test]
fn a_fault_takes_its_time_and_ends_by_itself() {
    let (_folder, machine) = torus();
    let whole = modes(machine.root());
    let spec = FaultSpec {
        after: Duration::from_millis(300),
        lasts: Some(Duration::from_millis(300)),
        ..now(Fault::Reset { device: 0 })
    };
    let root = machine.root().to_owned();
    let start = Instant::now();
    let runner = {
        let machine = machine.clone();
        std::thread::spawn(move || {
            let mut heard = Vec::new();
            Schedule::new(vec![spec])
                .run(&machine, &Stop::default(), |due, _, _| heard.push(due))
                .map(|()| heard.len())
        })
    };
    until("it is announced", || state(&root) == Some(State::Pending));
    assert_eq!(sysfs(&root, 0, "reset"), "1\n");
    until("it strikes", || sysfs(&root, 0, "reset") == "0\n");
    assert!(start.elapsed() >= Duration::from_millis(300), "{:?}", start.elapsed());
    assert_eq!(runner.join().unwrap().unwrap(), 2);
    assert!(start.elapsed() >= Duration::from_millis(600), "{:?}", start.elapsed());
    assert_eq!(state(&root), None);
    assert!(modes(&root) == whole);
}

#[test]
fn a_run_that_is_stopped_lifts_what_it_struck_and_nothing_else() {
    let (_folder, machine) = torus();
    machine.strike(&now(Fault::Reset { device: 9 })).unwrap();
    let before = modes(machine.root());
    let specs = vec![
        now(Fault::DeviceLost { device: 1 }),
        FaultSpec { after: Duration::from_secs(3600), ..now(Fault::DeviceLost { device: 2 }) },
    ];
    let stop = Stop::default();
    let runner = {
        let (machine, stop) = (machine.clone(), stop.clone());
        std::thread::spawn(move || Schedule::new(specs).run(&machine, &stop, |_, _, _| {}))
    };
    until("the first strikes", || !machine.root().join("dev/neuron1").exists());
    assert_eq!(machine.faults().unwrap().faults.len(), 3);
    stop.ask();
    runner.join().unwrap().unwrap();
    assert!(modes(machine.root()) == before);
    assert_eq!(machine.faults().unwrap().faults.len(), 1);
}

#[test]
fn a_fault_that_was_cleared_before_its_time_does_not_strike() {
    let (_folder, machine) = torus();
    let spec = FaultSpec { after: Duration::from_millis(400), ..now(Fault::Reset { device: 0 }) };
    let runner = {
        let machine = machine.clone();
        std::thread::spawn(move || Schedule::new(vec![spec]).run(&machine, &Stop::default(), |_, _, _| {}))
    };
    until("it is announced", || state(machine.root()) == Some(State::Pending));
    machine.lift(1).unwrap();
    runner.join().unwrap().unwrap();
    assert_eq!(sysfs(machine.root(), 0, "reset"), "1\n");
}

#[test]
fn a_fault_whose_end_nobody_saw_is_lifted_by_who_looks_next() {
    let (_folder, machine) = torus();
    let (root, whole) = (machine.root(), modes(machine.root()));
    let over =
        || Faults::read(root).unwrap().in_force().all(|fault| *fault == Fault::DeviceLost { device: 1 });
    let strike_and_end = |fault| {
        let spec = FaultSpec { lasts: Some(Duration::from_millis(1)), ..now(fault) };
        let id = machine.strike(&spec).unwrap().unwrap();
        until("its end passes", over);
        id
    };
    let strike = || strike_and_end(Fault::Reset { device: 0 });
    strike();
    assert_eq!(sysfs(root, 0, "reset"), "0\n");
    assert!(machine.faults().unwrap().faults.is_empty());
    assert!(modes(root) == whole);
    let id = strike();
    assert!(matches!(machine.lift(id), Err(FaultError::NoFault { .. })), "it has ended");
    assert!(modes(root) == whole);
    strike();
    machine.strike(&now(Fault::DeviceLost { device: 1 })).unwrap();
    assert_eq!((sysfs(root, 0, "reset").as_str(), machine.lift_all().unwrap()), ("1\n", 1));
    strike_and_end(Fault::CoreHeld { core: 5, pid: 77 });
    // As who answers ioctls reads them.
    assert_eq!(Faults::read(root).unwrap().holder_of(5), None);
}

#[test]
fn a_run_refuses_all_before_it_begins() {
    let (_folder, machine) = torus();
    let before = modes(machine.root());
    let specs = vec![now(Fault::Reset { device: 0 }), now(Fault::Reset { device: 16 })];
    let refused = Schedule::new(specs).run(&machine, &Stop::default(), |_, _, _| {}).unwrap_err();
    assert_eq!(refused.to_string(), "trn1.32xlarge has no device 16: its devices are 0 to 15");
    assert!(modes(machine.root()) == before);
}

fn state(root: &Path) -> Option<State> {
    Machine::open(root).unwrap().faults().unwrap().faults.first().map(|standing| standing.state)
}

/// Waits for a condition, ten seconds at most.
fn until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        Stop::default().wait_until(Instant::now() + Duration::from_millis(5));
    }
}
