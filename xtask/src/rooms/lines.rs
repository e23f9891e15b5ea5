//! How many lines each crate has, in its sources and in its tests. Called by `rooms`.

use std::fs;
use std::path::Path;

use anyhow::Context;
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// The lines of one crate's Rust files, empty lines and comments included.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Lines {
    #[serde(rename = "crate")]
    name: String,
    /// Lines in `src/` and `build.rs`, unit tests included.
    src: usize,
    /// Lines in `tests/`, `benches/` and `examples/`.
    tests: usize,
}

impl Lines {
    fn all(&self) -> usize {
        self.src + self.tests
    }
}

/// Counts a crate's lines; a crate nested in its folder is not counted.
///
/// # Errors
/// A file that cannot be read.
pub(super) fn of(name: &str, folder: &Path) -> anyhow::Result<Lines> {
    let count =
        |parts: &[&str]| parts.iter().map(|part| count(&folder.join(part))).sum::<anyhow::Result<usize>>();
    Ok(Lines {
        name: name.to_owned(),
        src: count(&["src", "build.rs"])?,
        tests: count(&["tests", "benches", "examples"])?,
    })
}

/// The problem with a crate that holds a quarter of all lines or more.
pub(super) fn too_large(crates: &[Lines]) -> Option<String> {
    let all: usize = crates.iter().map(Lines::all).sum();
    let largest = crates.iter().max_by_key(|lines| lines.all())?;
    (largest.all() * 4 >= all && crates.len() > 1).then(|| {
        format!(
            "{} holds {} of {all} lines, a quarter or more: divide it by what its parts are for",
            largest.name,
            largest.all()
        )
    })
}

/// One line a crate, the largest first, and the sums.
pub(super) fn table(crates: &[Lines]) -> String {
    let mut sorted = crates.to_vec();
    sorted.sort_by_key(|lines| std::cmp::Reverse(lines.all()));
    let all: usize = crates.iter().map(Lines::all).sum();
    let (src, tests) =
        (crates.iter().map(|lines| lines.src).sum(), crates.iter().map(|lines| lines.tests).sum());
    sorted.push(Lines { name: "all".to_owned(), src, tests });
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["CRATE", "SRC", "TESTS", "ALL", "SHARE"]);
    for lines in sorted {
        let share = format!("{} %", lines.all() * 100 / all.max(1));
        table.add_row([
            &lines.name,
            &lines.src.to_string(),
            &lines.tests.to_string(),
            &lines.all().to_string(),
            &share,
        ]);
    }
    for (place, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if place > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

fn count(path: &Path) -> anyhow::Result<usize> {
    let unreadable = || format!("cannot read {}", path.display());
    if path.is_dir() {
        let entries = fs::read_dir(path).with_context(unreadable)?;
        return entries.map(|entry| count(&entry.with_context(unreadable)?.path())).sum();
    }
    if !path.is_file() || path.extension().is_none_or(|extension| extension != "rs") {
        return Ok(0);
    }
    Ok(fs::read_to_string(path).with_context(unreadable)?.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, src: usize, tests: usize) -> Lines {
        Lines { name: name.to_owned(), src, tests }
    }

    #[test]
    fn a_crate_with_a_quarter_of_all_lines_is_too_large() {
        let crates = [lines("a", 15, 10), lines("b", 25, 0), lines("c", 25, 0), lines("d", 24, 1)];
        assert_eq!(
            too_large(&crates).unwrap(),
            "d holds 25 of 100 lines, a quarter or more: divide it by what its parts are for"
        );
        let more = [&crates[..], &[lines("e", 1, 0)]].concat();
        assert_eq!(too_large(&more), None);
    }

    #[test]
    fn a_crate_alone_is_not_too_large() {
        assert_eq!(too_large(&[lines("a", 10, 0)]), None);
    }

    #[test]
    fn the_table_has_the_largest_crate_first_and_the_sums_last() {
        let expected = "\
CRATE  SRC  TESTS  ALL  SHARE
b       60     10   70   70 %
a       30      0   30   30 %
all     90     10  100  100 %";
        let table = table(&[lines("a", 30, 0), lines("b", 60, 10)]);
        let trimmed: Vec<&str> = table.lines().map(str::trim_end).collect();
        assert_eq!(trimmed.join("\n"), expected);
    }

    #[test]
    fn rust_is_counted_in_sources_and_tests_and_nothing_nested() {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("src/lib.rs", "a\n\nb\n"),
            ("src/deep/er.rs", "c"),
            ("src/data.json", "{\n}\n"),
            ("build.rs", "d\n"),
            ("tests/one/main.rs", "e\nf\n"),
            ("nested/src/lib.rs", "g\n"),
        ] {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        assert_eq!(of("x", folder.path()).unwrap(), lines("x", 5, 2));
    }
}
