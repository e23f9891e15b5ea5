//! The test in Rust that `docs/fake-hardware.md` shows, as it stands there, and what it tests; `tests/page.rs` holds the two against each
//! other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

use fake_neuron::Machine;
use fake_neuron::fault::{Fault, FaultSpec};

#[test]
fn a_lost_device_is_noticed() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::builder("trn1.32xlarge").up(folder.path()).unwrap();
    assert_eq!(my_program::devices(folder.path()), 16);
    machine.strike(&FaultSpec::now(Fault::DeviceLost { device: 3 })).unwrap();
    assert_eq!(my_program::devices(folder.path()), 15);
}

/// What the page calls the reader's own program.
mod my_program {
    use std::path::Path;

    /// Number of devices that it finds below the root.
    pub(crate) fn devices(root: &Path) -> usize {
        let class = std::fs::read_dir(root.join("sys/class/neuron_device")).unwrap();
        class
            .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with("neuron"))
            .count()
    }
}
