//! What came of looking for planted bugs, for people. Called by `cargo xtask planted`.

use comfy_table::{Table, presets};

use super::hunt::Found;

/// A row for each bug, in Markdown: docs/testing.md has it.
pub(super) fn table(found: &[Found]) -> String {
    let mut table = Table::new();
    table.load_style(presets::ASCII_MARKDOWN);
    table.set_header(["bug", "found by", "simulated hours", "real seconds"]);
    table.add_rows(found.iter().map(|found| {
        let hours = format!("{:.1}", found.hours);
        [format!("`{}`", found.bug), what(found), hours, format!("{:.0}", found.seconds)]
    }));
    table.to_string()
}

/// One bug in a line.
pub(super) fn line(found: &Found) -> String {
    let Found { bug, hours, seconds, .. } = found;
    format!("{bug}: {} after {hours:.1} simulated hours, {seconds:.0} s", what(found))
}

fn what(found: &Found) -> String {
    let plan = found.plan.as_ref().map_or(String::new(), |plan| format!(", in the kept plan `{plan}`"));
    match (&found.signature, found.unrelated.is_empty()) {
        (Some(signature), _) => format!("`{signature}`{plan}"),
        (None, true) => format!("NOT FOUND by {}{plan}", found.invariant),
        (None, false) => {
            let unrelated: Vec<&str> = found.unrelated.iter().map(String::as_str).collect();
            format!("NOT FOUND by {}{plan}; runs were ended by {}", found.invariant, unrelated.join(", "))
        }
    }
}
