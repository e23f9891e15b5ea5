//! The golden table: every type, every device count and core count, the candidate sets or the warning.

use neuron_core::catalog::Catalog;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::place;
use neuron_core::request::{ContainerRequest, PodRequest, Role};
use neuron_core::topology::{Policy, Topology};
use std::fmt::Write;
use std::sync::Arc;

#[test]
fn candidate_sets_of_every_type_and_count() {
    let mut table = String::new();
    for found in Catalog::embedded().types() {
        let mut sizes = vec![found.default_lnc];
        sizes.extend((found.default_lnc != 1).then_some(1));
        for lnc in sizes {
            let topology = Arc::new(Topology::of(found, lnc, Policy::Documented).unwrap());
            write_type(&mut table, &topology);
        }
    }
    insta::assert_snapshot!("candidate_sets", table);
}

fn write_type(table: &mut String, topology: &Arc<Topology>) {
    let (devices, size, lnc) = (topology.devices(), topology.cores_per_device(), topology.lnc());
    writeln!(table, "## {}, LNC {lnc}: {devices} x {size} cores", topology.instance_type()).unwrap();
    let lines = |noun: &str, sets: &dyn Fn(u32) -> Vec<Vec<u8>>, most: u8, table: &mut String| {
        let mut line = |first: u32, last: u32, what: &str| {
            let counts = if first == last { first.to_string() } else { format!("{first}-{last}") };
            writeln!(table, "{noun:<6} {counts:>7}  {what}").unwrap();
        };
        let mut count = 1;
        while count <= u32::from(most) {
            let candidates = sets(count);
            if !candidates.is_empty() {
                line(count, count, &words(&candidates));
                count += 1;
                continue;
            }
            let first = count;
            while count <= u32::from(most) && sets(count).is_empty() {
                assert_eq!(warning(topology, noun, count), expected(topology, noun, &count.to_string()));
                count += 1;
            }
            line(first, count - 1, &expected(topology, noun, "N"));
        }
    };
    let device_sets = |count| topology.device_sets(count).iter().map(|set| set.iter().collect()).collect();
    let core_sets = |count| topology.core_sets(count).iter().map(|set| set.iter().collect()).collect();
    lines("device", &device_sets, devices, table);
    lines("core", &core_sets, topology.cores(), table);
    table.push('\n');
}

/// What a user reads who requests the count on an empty node of the type.
fn warning(topology: &Arc<Topology>, noun: &str, count: u32) -> String {
    let (devices, cores) = if noun == "device" { (count, 0) } else { (0, count) };
    let requested = ContainerRequest { name: "main".into(), role: Role::App, devices, cores };
    let empty = Occupancy::empty(Arc::clone(topology));
    place(&PodRequest { containers: vec![requested] }, &empty).unwrap_err().to_string()
}

fn expected(topology: &Topology, noun: &str, count: &str) -> String {
    let name = topology.instance_type();
    format!(
        "Instance type {name} does not support requests for {noun}: {count}. Please request a different number of {noun}s."
    )
}

/// Sets as `{0-3} {4-7}`; more than eight that start a fixed step apart as `{0-3} {1-4} .. {12-15} (13)`.
fn words(sets: &[Vec<u8>]) -> String {
    let word = |ids: &Vec<u8>| {
        let (first, last) = (ids[0], ids[ids.len() - 1]);
        assert_eq!(usize::from(last - first) + 1, ids.len(), "documented sets are runs of ids");
        if first == last { format!("{{{first}}}") } else { format!("{{{first}-{last}}}") }
    };
    let all: Vec<String> = sets.iter().map(word).collect();
    let starts: Vec<u8> = sets.iter().map(|ids| ids[0]).collect();
    let even = starts.windows(3).all(|three| three[1] - three[0] == three[2] - three[1]);
    if all.len() > 8 && even {
        return format!("{} {} .. {} ({})", all[0], all[1], all[all.len() - 1], all.len());
    }
    if all.len() <= 8 {
        return all.join(" ");
    }
    // Sets inside devices: the pattern of the first device repeats on every one.
    let group = starts.windows(2).position(|two| two[1] - two[0] != 1).map_or(1, |at| at + 1);
    let groups: Vec<&[u8]> = starts.chunks(group).collect();
    let shift = groups[1][0] - groups[0][0];
    assert!(groups.windows(2).all(|two| two[0].iter().map(|id| id + shift).eq(two[1].iter().copied())));
    let groups: Vec<String> = all.chunks(group).map(|sets| sets.join(" ")).collect();
    format!("{} | {} | .. | {} ({})", groups[0], groups[1], groups[groups.len() - 1], all.len())
}
