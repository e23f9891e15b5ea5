//! The table of `neuron-ls`: its newest columns, each with a heading of two lines; one without any value is left out. Called by
//! [`crate::ls`].

use crate::host::{Device, Host};
use crate::ls::processes::{NONE, Shown};

struct Column {
    heading: [&'static str; 2],
    /// By device: one value, or one for each of its processes.
    cells: Vec<Vec<String>>,
}

/// The columns in the order of captures of 2025 and 2026: the PID stands before the CPU affinity.
pub(super) fn text(host: &Host, processes: &[Vec<Shown>]) -> String {
    let of_device = |heading, value: &dyn Fn(&Device) -> String| Column {
        heading,
        cells: host.devices.iter().map(|device| vec![value(device)]).collect(),
    };
    let is_used = processes.iter().any(|shown| !shown.is_empty());
    let of_process = |heading, value: &dyn Fn(&Shown) -> String| Column {
        heading,
        cells: processes
            .iter()
            .map(|shown| match (is_used, shown.is_empty()) {
                (false, _) => Vec::new(),
                (true, true) => vec![NONE.to_owned()],
                (true, false) => shown.iter().map(value).collect(),
            })
            .collect(),
    };
    let columns = [
        of_device(["NEURON", "DEVICE"], &|device| device.id.to_string()),
        of_device(["NEURON", "CORES"], &|device| host.logical_cores(device).to_string()),
        of_device(["NEURON", "CORE IDS"], &|device| core_ids(host, device)),
        of_device(["NEURON", "MEMORY"], &|device| format!("{} GB", device.memory_bytes >> 30)),
        of_device(["CONNECTED", "DEVICES"], &|device| ids(&device.connected)),
        of_device(["PCI", "BDF"], &|device| device.pci_address.clone()),
        of_process(["PID", ""], &|shown| shown.pid.to_string()),
        of_device(["CPU", "AFFINITY"], &|device| device.cpus.clone()),
        of_device(["NUMA", "NODE"], &|device| device.numa_node.to_string()),
        of_process(["COMMAND", ""], &|shown| shown.command.clone()),
        of_process(["RUNTIME", "VERSION"], &|shown| shown.runtime_version.to_owned()),
    ];
    let columns: Vec<Column> = columns.into_iter().filter(Column::has_values).collect();
    draw(&columns, host.devices.len())
}

fn core_ids(host: &Host, device: &Device) -> String {
    let ids = host.logical_core_ids(device);
    match ids.len() {
        1 => ids.start.to_string(),
        _ => format!("{}-{}", ids.start, ids.end - 1),
    }
}

fn ids(ids: &[u8]) -> String {
    ids.iter().map(u8::to_string).collect::<Vec<_>>().join(", ")
}

impl Column {
    fn has_values(&self) -> bool {
        self.cells.iter().flatten().any(|cell| !cell.is_empty())
    }

    fn width(&self) -> usize {
        let cells = self.cells.iter().flatten().map(String::as_str);
        cells.chain(self.heading).map(|text| text.chars().count()).max().unwrap_or(0)
    }
}

/// With a rule below each device where one has more than one line.
fn draw(columns: &[Column], devices: usize) -> String {
    let rule: String = columns.iter().map(|column| format!("+{}", "-".repeat(column.width() + 2))).collect();
    let rule = format!("{rule}+\n");
    let mut text = rule.clone();
    for line in 0..2 {
        let headings =
            columns.iter().map(|column| format!("| {:^1$} ", column.heading[line], column.width()));
        text.push_str(&format!("{}|\n", headings.collect::<String>()));
    }
    text.push_str(&rule);
    let lines_of = |device: usize| {
        columns.iter().filter_map(|column| column.cells.get(device)).map(Vec::len).max().unwrap_or(0)
    };
    let is_ruled = (0..devices).any(|device| lines_of(device) > 1);
    for device in 0..devices {
        for line in 0..lines_of(device) {
            let cells = columns.iter().map(|column| {
                let cell = column.cells.get(device).and_then(|lines| lines.get(line));
                format!("| {:<1$} ", cell.map_or("", String::as_str), column.width())
            });
            text.push_str(&format!("{}|\n", cells.collect::<String>()));
        }
        if is_ruled || device + 1 == devices {
            text.push_str(&rule);
        }
    }
    text
}
