//! What every test of faults needs: a machine to break, and a fault at once.

#![allow(dead_code, reason = "no test file uses all of it")]

use fake_neuron::Machine;
use fake_neuron::fault::{Fault, FaultSpec};

use crate::common::place;

pub(crate) fn torus() -> (tempfile::TempDir, Machine) {
    let (folder, root) = place();
    let machine = Machine::builder("trn1.32xlarge").counters(true).up(&root).unwrap();
    (folder, machine)
}

pub(crate) fn now(fault: Fault) -> FaultSpec {
    FaultSpec::now(fault)
}
