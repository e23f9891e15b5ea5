//! What came of the cases: a table for people, rows for programs.

use comfy_table::{Attribute, Cell, Color, ContentArrangement, Table, presets};
use serde::Serialize;

/// Columns of the table where no terminal says how many it has.
const WIDTH: u16 = 120;

/// What a case came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CaseResult {
    /// Everything was as the case asks.
    Passed,
    /// Something was not.
    Failed,
    /// The case asks nothing of this plugin, or cannot be made here.
    NotApplicable,
}

/// One case, as the table and the JSON show it.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The file under `test/e2e_node` of Kubernetes, or what the case is about.
    pub file: &'static str,
    /// The case's name.
    pub case: &'static str,
    /// What it came to.
    pub result: CaseResult,
    /// What was seen; why it failed; why it is not applicable.
    pub seen: String,
    /// What was done, in order, as far as it came.
    pub steps: Vec<String>,
    /// Wall time in seconds.
    pub seconds: f64,
}

impl Row {
    /// What the table's column says.
    pub fn word(&self) -> &'static str {
        match self.result {
            CaseResult::Passed => "passed",
            CaseResult::Failed => "FAILED",
            CaseResult::NotApplicable => "not applicable",
        }
    }
}

/// The table: file and case, what it came to, what was seen; why a case failed is in [`failures`].
pub fn table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    // The longest text would set the width of a file or a pipe.
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    table.set_header(["case", "result", "what was seen"]);
    let mut file = "";
    for row in rows {
        if row.file != file {
            file = row.file;
            table.add_row([Cell::new(file).add_attribute(Attribute::Italic)]);
        }
        let result = match row.result {
            CaseResult::Passed => Cell::new(row.word()).fg(Color::Green),
            CaseResult::Failed => Cell::new(row.word()).fg(Color::Red).add_attribute(Attribute::Bold),
            CaseResult::NotApplicable => Cell::new(row.word()),
        };
        let seen = if row.result == CaseResult::Failed { "see below" } else { &row.seen };
        table.add_row([Cell::new(row.case), result, Cell::new(seen)]);
    }
    table
}

/// What stands below the table: each case that failed, and why on indented lines of its own, for that is often long and
/// must be copied. Empty if none failed.
pub fn failures(rows: &[Row]) -> String {
    let failed = rows.iter().filter(|row| row.result == CaseResult::Failed);
    let text = |row: &Row| {
        let why: String = row.seen.lines().map(|line| format!("  {line}\n")).collect();
        format!("{} {}: {}\n{why}", row.word(), row.file, row.case)
    };
    failed.map(text).collect()
}

/// The last line: `N passed, N failed, N not applicable`.
pub fn summary(rows: &[Row]) -> String {
    let count = |result| rows.iter().filter(|row| row.result == result).count();
    format!(
        "{} passed, {} failed, {} not applicable",
        count(CaseResult::Passed),
        count(CaseResult::Failed),
        count(CaseResult::NotApplicable)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_says_its_file_once_and_what_was_seen() {
        let row = |case, result, seen: &str| Row {
            file: "device_plugin_test.go",
            case,
            result,
            seen: seen.to_owned(),
            steps: Vec::new(),
            seconds: 1.0,
        };
        let rows = [
            row("Can schedule a pod that requires a device", CaseResult::Passed, "widget0"),
            row("can make a CDI device accessible in a container", CaseResult::NotApplicable, "no CDI"),
        ];
        let text = table(&rows).to_string();
        assert_eq!(text.matches("device_plugin_test.go").count(), 1, "{text}");
        assert!(text.contains("not applicable"), "{text}");
        assert_eq!(summary(&rows), "1 passed, 0 failed, 1 not applicable");
    }
}
