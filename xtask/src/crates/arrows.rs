//! Compares the workspace's dependencies with the table of who may know whom. Called by `cargo xtask arrows`.

use crate::crates::metadata::{Crate, Workspace};
use crate::crates::rules::Row;

/// The file with the table, as remedies name it.
const TABLE: &str = "xtask/src/crates/rules.rs";

/// Everything that the table does not allow, each with its remedy.
pub(super) fn problems(workspace: &Workspace, rows: &[Row]) -> Vec<String> {
    let mut problems = Vec::new();
    for known in &workspace.crates {
        match rows.iter().filter(|row| row.name == known.name).collect::<Vec<_>>().as_slice() {
            [] => problems.push(format!(
                "crate {} has no row: say in docs/architecture.md §2 what it may know, and add its row to {TABLE}",
                known.name
            )),
            [row] => problems.extend(of_crate(workspace, known, row)),
            _ => problems.push(format!("crate {} has several rows in {TABLE}: keep one", known.name)),
        }
    }
    let is_crate = |name: &str| workspace.crates.iter().any(|known| known.name == name);
    for row in rows {
        if !is_crate(row.name) {
            problems.push(format!("row {} is of no crate: remove it from {TABLE}", row.name));
        }
        let named = row.knows.iter().chain(row.tests_know.into_iter().flatten());
        for name in named.filter(|name| !is_crate(name)) {
            problems
                .push(format!("row {} names {name}, which is no crate: remove it from {TABLE}", row.name));
        }
    }
    problems
}

fn of_crate(workspace: &Workspace, known: &Crate, row: &Row) -> Vec<String> {
    let name = &known.name;
    let remedy = |section: &str| {
        format!(
            "remove it from {section} of {name}'s Cargo.toml, or argue for the arrow in docs/architecture.md §2 and add \
                 it to the row in {TABLE}"
        )
    };
    let linked = known.normal.iter().filter(|other| !row.knows.contains(&other.as_str()));
    let linked = linked.map(|other| format!("{name} must not know {other}: {}", remedy("[dependencies]")));
    let in_tests = known.development.iter().filter(|other| {
        row.tests_know
            .is_some_and(|tests| !tests.contains(&other.as_str()) && !row.knows.contains(&other.as_str()))
    });
    let in_tests = in_tests
        .map(|other| format!("the tests of {name} must not know {other}: {}", remedy("[dev-dependencies]")));
    let reached = row.never.iter().filter_map(|package| workspace.way(name, package));
    let reached = reached.map(|way| {
        let package = way.last().cloned().unwrap_or_default();
        format!(
            "{name} must never reach {package}, and does: {}; drop the dependency that leads there",
            way.join(" -> ")
        )
    });
    linked.chain(in_tests).chain(reached).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    fn known(name: &str, normal: &[&str], development: &[&str]) -> Crate {
        Crate {
            name: name.to_owned(),
            folder: PathBuf::new(),
            roots: Vec::new(),
            normal: set(normal),
            development: set(development),
        }
    }

    /// `core` and `program`, which links it and a library that brings tokio.
    fn workspace(core: Crate) -> Workspace {
        let program = known("program", &["core"], &["core"]);
        let links = [
            ("program", &["core", "http"][..]),
            ("http", &["hyper"]),
            ("hyper", &["tokio"]),
            ("core", &["serde"]),
        ];
        let links = links.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect();
        Workspace { crates: vec![core, program], links }
    }

    const CORE: Row = Row { name: "core", knows: &[], tests_know: Some(&[]), never: &["tokio"] };
    const PROGRAM: Row = Row { name: "program", knows: &["core"], tests_know: None, never: &[] };

    #[track_caller]
    fn only_problem(workspace: &Workspace, rows: &[Row]) -> String {
        let problems = problems(workspace, rows);
        assert_eq!(problems.len(), 1, "{problems:?}");
        problems.into_iter().next().unwrap()
    }

    #[test]
    fn what_the_table_allows_is_no_problem() {
        assert_eq!(problems(&workspace(known("core", &[], &[])), &[CORE, PROGRAM]), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_that_is_not_in_the_table_is_named_with_its_remedy() {
        let problem = only_problem(&workspace(known("core", &["program"], &[])), &[CORE, PROGRAM]);
        let start =
            "core must not know program: remove it from [dependencies] of core's Cargo.toml, or argue";
        assert!(problem.starts_with(start), "{problem}");
    }

    #[test]
    fn tests_are_held_to_the_table_only_where_it_says_so() {
        let problem = only_problem(&workspace(known("core", &[], &["program"])), &[CORE, PROGRAM]);
        assert!(problem.starts_with("the tests of core must not know program"), "{problem}");
        let free = Row { tests_know: None, ..CORE };
        assert_eq!(
            problems(&workspace(known("core", &[], &["program"])), &[free, PROGRAM]),
            Vec::<String>::new()
        );
    }

    #[test]
    fn tests_may_use_what_the_crate_itself_may() {
        let two = Row { tests_know: Some(&["http"]), knows: &["program"], ..CORE };
        let workspace = workspace(known("core", &[], &["program", "http"]));
        let problems = problems(&workspace, &[two, PROGRAM]);
        assert_eq!(
            problems,
            ["row core names http, which is no crate: remove it from xtask/src/crates/rules.rs"]
        );
    }

    #[test]
    fn a_crate_without_a_row_and_a_row_without_a_crate_fail() {
        let workspace = workspace(known("core", &[], &[]));
        assert!(only_problem(&workspace, &[PROGRAM]).starts_with("crate core has no row"));
        let gone = Row { name: "gone", knows: &[], tests_know: None, never: &[] };
        assert!(only_problem(&workspace, &[CORE, PROGRAM, gone]).starts_with("row gone is of no crate"));
        let stale = Row { knows: &["core", "gone"], ..PROGRAM };
        assert!(
            only_problem(&workspace, &[CORE, stale]).starts_with("row program names gone, which is no crate")
        );
        assert!(only_problem(&workspace, &[CORE, CORE, PROGRAM]).starts_with("crate core has several rows"));
    }

    #[test]
    fn a_package_that_must_not_be_reached_is_named_with_the_way_to_it() {
        let never = Row { never: &["tokio", "kube"], ..PROGRAM };
        let problem = only_problem(&workspace(known("core", &[], &[])), &[CORE, never]);
        assert!(
            problem.contains("program must never reach tokio, and does: program -> http -> hyper -> tokio"),
            "{problem}"
        );
    }
}
