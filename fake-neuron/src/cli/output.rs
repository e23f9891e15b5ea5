//! What the commands print: the tables of types and aliases, the same as JSON, and one line per machine.

use comfy_table::{Attribute, Cell, Table, presets};
use fake_neuron::Machine;
use neuron_core::catalog::{Catalog, Generation, InstanceType, SetRule, Shape};
use serde::Serialize;

/// One type, as `-o json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TypeRow<'a> {
    instance_type: &'a str,
    generation: &'static str,
    devices: u8,
    /// Number of physical cores.
    cores_per_device: u8,
    /// Number at the default LNC.
    logical_cores_per_device: u8,
    default_lnc: u8,
    shape: &'static str,
    device_counts: &'a [u8],
    /// Whether AWS documents the counts.
    counts_documented: bool,
    /// Grade of evidence.
    evidence: &'a str,
    note: &'a str,
}

/// One alias, as `-o json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AliasRow<'a> {
    name: &'a str,
    /// `null`: the name is known, its devices are not, so it cannot be made.
    same_as: Option<&'a str>,
}

#[derive(Serialize)]
struct Listing<'a> {
    types: Vec<TypeRow<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aliases: Option<Vec<AliasRow<'a>>>,
}

/// Every type, and with `aliases` every other name, as aligned columns; headings are bold if `styled`.
pub(crate) fn table(catalog: &Catalog, aliases: bool, styled: bool) -> String {
    let headings = ["TYPE", "GENERATION", "DEVICES", "CORES/DEVICE", "SHAPE", "DEVICE COUNTS", "EVIDENCE"];
    let rows = catalog.types().iter().map(|model| {
        let row = type_row(model);
        vec![
            row.instance_type.to_owned(),
            row.generation.to_owned(),
            row.devices.to_string(),
            cores(&row),
            row.shape.to_owned(),
            counts(model),
            evidence(&row),
        ]
    });
    let mut text = columns(&headings, rows, styled);
    if aliases {
        let rows = alias_rows(catalog).into_iter().map(|row| {
            vec![row.name.to_owned(), row.same_as.unwrap_or("unknown: cannot be made").to_owned()]
        });
        text.push('\n');
        text.push_str(&columns(&["ALIAS", "SAME AS"], rows, styled));
        text.push_str("\n`ml.` in front of any name is the same type.\n");
    }
    text
}

/// `{"types": [..]}`, and `"aliases"` if asked for.
pub(crate) fn json(catalog: &Catalog, aliases: bool) -> serde_json::Result<String> {
    let types = catalog.types().iter().map(type_row).collect();
    let listing = Listing { types, aliases: aliases.then(|| alias_rows(catalog)) };
    serde_json::to_string_pretty(&listing).map(|text| text + "\n")
}

/// The line after `up`.
pub(crate) fn standing(machine: &Machine) -> String {
    let devices = match machine.devices() {
        1 => "1 device".to_owned(),
        several => format!("{several} devices"),
    };
    format!(
        "{} ({}) with {devices} stands under {}\n",
        machine.instance_type(),
        machine.instance_id(),
        machine.root().display()
    )
}

/// Aligned columns; headings are bold if `styled`.
pub(crate) fn columns(headings: &[&str], rows: impl Iterator<Item = Vec<String>>, styled: bool) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    if !styled {
        table.force_no_tty();
    }
    table.set_header(headings.iter().map(|heading| Cell::new(heading).add_attribute(Attribute::Bold)));
    table.add_rows(rows);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt() + "\n"
}

fn type_row(model: &InstanceType) -> TypeRow<'_> {
    TypeRow {
        instance_type: &model.name,
        generation: match model.generation {
            Generation::Inf1 => "inf1",
            Generation::Inf2 => "inf2",
            Generation::Trn1 => "trn1",
            Generation::Trn2 => "trn2",
            Generation::Trn3 => "trn3",
        },
        devices: model.devices,
        cores_per_device: model.cores_per_device,
        logical_cores_per_device: model.cores_per_device / model.default_lnc.max(1),
        default_lnc: model.default_lnc,
        shape: match model.shape {
            Shape::Single => "single",
            Shape::Line => "line",
            Shape::Ring => "ring",
            Shape::Torus => "torus",
            Shape::Switch => "switch",
        },
        device_counts: &model.device_counts,
        counts_documented: model.counts_documented,
        evidence: &model.confidence,
        note: &model.note,
    }
}

fn alias_rows(catalog: &Catalog) -> Vec<AliasRow<'_>> {
    let row = |name| AliasRow { name, same_as: catalog.find(name).map(|model| model.name.as_str()) };
    catalog.other_names().map(row).collect()
}

fn cores(row: &TypeRow<'_>) -> String {
    match row.default_lnc {
        1 => row.cores_per_device.to_string(),
        lnc => format!("{} ({} at LNC {lnc})", row.cores_per_device, row.logical_cores_per_device),
    }
}

/// Runs allow every count, so a range says it shorter.
fn counts(model: &InstanceType) -> String {
    match (model.device_sets, model.devices) {
        (SetRule::Run, devices) => format!("1-{devices}"),
        _ => model.device_counts.iter().map(u8::to_string).collect::<Vec<_>>().join(", "),
    }
}

fn evidence(row: &TypeRow<'_>) -> String {
    if row.counts_documented { row.evidence.to_owned() } else { format!("{}, counts assumed", row.evidence) }
}
