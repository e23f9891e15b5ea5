//! What `neuron-ls --topology` draws below the table: the torus, the line and the mark of a wrap as in the samples of the Neuron
//! SDK's docs. No sample shows a ring, which is drawn as a line that wraps, nor devices without links, which have a line each.
//! Called by [`crate::ls`].

use std::collections::{BTreeMap, BTreeSet};

use crate::host::Host;

/// Devices of a torus' row, and rows.
const SIDE: u8 = 4;

const LINK: &str = "◄––►";
const WRAP_IN: &str = "*––►";
const WRAP_OUT: &str = "◄––*";
const LEGEND: &str = "\nLegend:\n\n        *––► = Wrap-around link\n";

/// Links between devices that are here, by host id.
type Links = BTreeMap<u8, BTreeSet<u8>>;

pub(super) fn text(host: &Host) -> String {
    let here: BTreeMap<u8, u8> = host.devices.iter().map(|device| (device.host_id, device.id)).collect();
    let links: Links = host
        .devices
        .iter()
        .map(|device| {
            let links = device.connected.iter().copied().filter(|other| here.contains_key(other));
            (device.host_id, links.collect())
        })
        .collect();
    let drawing = if links == torus() {
        format!("{}{LEGEND}", grid())
    } else {
        let name = |host_id: &u8| named(here.get(host_id).copied().unwrap_or(*host_id));
        let chains: Vec<Chain> = chains(&links);
        let lines: String = chains.iter().map(|chain| format!("{}\n", chain.draw(&name))).collect();
        let legend = if chains.iter().any(|chain| chain.wraps) { LEGEND } else { "" };
        format!("\n{lines}{legend}")
    };
    format!("\n\nNeuron Device Topology\n{drawing}")
}

fn named(id: u8) -> String {
    format!("[{id:>2} ]")
}

/// The links of sixteen devices in rows of four, both ways round.
fn torus() -> Links {
    let at = |row: u8, column: u8| (row % SIDE) * SIDE + column % SIDE;
    (0..SIDE * SIDE)
        .map(|id| {
            let (row, column) = (id / SIDE, id % SIDE);
            let before = SIDE - 1;
            let beside =
                [(row + 1, column), (row + before, column), (row, column + 1), (row, column + before)];
            (id, beside.map(|(row, column)| at(row, column)).into())
        })
        .collect()
}

fn grid() -> String {
    let vertical = |mark: &str| format!("      {}      \n", [mark; SIDE as usize].join("        "));
    let mut text = format!("{}{}{}", vertical("*"), vertical("│"), vertical("▼"));
    for row in 0..SIDE {
        let names = (0..SIDE).map(|column| named(row * SIDE + column)).collect::<Vec<_>>().join(LINK);
        text.push_str(&format!("{WRAP_IN}{names}{WRAP_OUT}\n{}{}", vertical("▲"), vertical("│")));
        text.push_str(&vertical(if row + 1 < SIDE { "▼" } else { "*" }));
    }
    text
}

/// Devices linked one after the other.
struct Chain {
    host_ids: Vec<u8>,
    /// Whether the last is linked to the first.
    wraps: bool,
}

impl Chain {
    fn draw(&self, name: &dyn Fn(&u8) -> String) -> String {
        let names = self.host_ids.iter().map(name).collect::<Vec<_>>();
        match self.wraps {
            true => format!("{WRAP_IN}{}{WRAP_OUT}", names.join(LINK)),
            false => format!("  {}", names.join(LINK)),
        }
    }
}

/// Every device in a chain; alone where its links make no chain.
fn chains(links: &Links) -> Vec<Chain> {
    let mut chains = Vec::new();
    let mut left: BTreeSet<u8> = links.keys().copied().collect();
    let neighbours = |id: &u8| links.get(id).into_iter().flatten().copied();
    let is_branched = links.values().any(|linked| linked.len() > 2);
    while let Some(lowest) = left.first().copied() {
        // A line is drawn from its lower end.
        let reached = reached(lowest, &neighbours);
        let start = reached.iter().copied().find(|id| neighbours(id).count() < 2).unwrap_or(lowest);
        let mut host_ids = Vec::new();
        let mut next = Some(start);
        while let Some(id) = next.filter(|id| left.remove(id)) {
            host_ids.push(id);
            next = neighbours(&id).filter(|_| !is_branched).find(|other| left.contains(other));
        }
        let wraps =
            host_ids.len() > 2 && host_ids.last().is_some_and(|last| neighbours(last).any(|id| id == start));
        chains.push(Chain { host_ids, wraps: wraps && !is_branched });
    }
    chains
}

/// Everything that links lead to from `start`.
fn reached<I: Iterator<Item = u8>>(start: u8, neighbours: &impl Fn(&u8) -> I) -> BTreeSet<u8> {
    let mut found = BTreeSet::from([start]);
    let mut open = vec![start];
    while let Some(id) = open.pop() {
        open.extend(neighbours(&id).filter(|other| found.insert(*other)));
    }
    found
}
