//! What a thousand machines' trees in memory cost: bytes and microseconds each.
//!
//! ```sh
//! cargo run --release -p fake-neuron --example trees
//! ```

use std::error::Error;
use std::fs;
use std::time::Instant;

use fake_neuron::memory::{Tree, Trees};
use fake_neuron::{Machine, MachineError};

/// Trees of each kind.
const TREES: usize = 1000;

fn main() -> Result<(), Box<dyn Error>> {
    println!("{TREES} trees of each row in one process; bytes are what the process grew by\n");
    println!(
        "{:<16} {:<9} {:>7} {:>12} {:>14} {:>14}",
        "TYPE", "COUNTERS", "FILES", "FIRST, US", "EACH, US", "EACH, BYTES"
    );
    // All of it stays until the end: what one row gave back would be free memory for the next.
    let mut kept = Vec::new();
    for instance_type in ["inf2.xlarge", "trn1.32xlarge", "trn2.48xlarge"] {
        for counters in [false, true] {
            kept.push(row(instance_type, counters)?);
        }
    }
    Ok(())
}

fn row(instance_type: &str, counters: bool) -> Result<Vec<Tree>, Box<dyn Error>> {
    let blueprint = |number: usize| {
        let id = format!("i-{number:017x}");
        Machine::builder(instance_type).counters(counters).instance_id(&id).blueprint()
    };
    let mut trees = Trees::new();
    let start = Instant::now();
    let first = trees.tree(blueprint(0)?);
    let shape = start.elapsed();
    // What making the shape has freed is used up by others, so that it does not hide what is measured.
    let others = (0..TREES).map(|number| Ok(trees.tree(blueprint(number)?)));
    let others = others.collect::<Result<Vec<_>, MachineError>>()?;
    let mut made = Vec::with_capacity(TREES);
    let before = resident()?;
    let start = Instant::now();
    for number in 0..TREES {
        made.push(trees.tree(blueprint(number)?));
    }
    let each = start.elapsed() / u32::try_from(TREES)?;
    let bytes = resident()?.saturating_sub(before) / TREES;
    let asset = "sys/devices/virtual/dmi/id/board_asset_tag";
    assert_ne!(made[1].read(asset), made[2].read(asset), "each is a machine of its own");
    println!(
        "{instance_type:<16} {:<9} {:>7} {:>12} {:>14.1} {bytes:>14}",
        if counters { "yes" } else { "no" },
        first.paths().count(),
        shape.as_micros(),
        each.as_secs_f64() * 1e6
    );
    made.extend(others);
    Ok(made)
}

/// Bytes of memory that the process has in use.
fn resident() -> Result<usize, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/statm")?;
    let pages: usize = status.split(' ').nth(1).unwrap_or_default().parse()?;
    Ok(pages * 4096)
}
