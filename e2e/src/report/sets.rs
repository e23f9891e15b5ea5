//! Device and core ids as people read them. Used by the tables and by the drawings.

use neuron_core::record::ContainerAllocation;

/// `devices 0-3`, `core 5`, or both.
pub(crate) fn set(allocation: &ContainerAllocation) -> String {
    let part = |noun: &str, ids: String| {
        let plural = if ids.contains(',') { "s" } else { "" };
        (!ids.is_empty()).then(|| format!("{noun}{plural} {}", folded(&ids)))
    };
    let parts = [part("device", allocation.devices.to_string()), part("core", allocation.cores.to_string())];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

/// `0,1,2,5` as `0-2,5`.
pub(crate) fn folded(ids: &str) -> String {
    let mut runs: Vec<(u8, u8)> = Vec::new();
    for id in ids.split(',').filter_map(|id| id.parse::<u8>().ok()) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == id => *last = id,
            _ => runs.push((id, id)),
        }
    }
    let text =
        |(first, last): &(u8, u8)| if first == last { first.to_string() } else { format!("{first}-{last}") };
    runs.iter().map(text).collect::<Vec<_>>().join(",")
}
