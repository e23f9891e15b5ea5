//! Finds import cycles whose files are not all in one folder. Called by `rooms`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::imports::Imports;

/// An import cycle that spans folders.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cycle {
    /// Its files in the order of import; the last imports the first.
    pub(super) files: Vec<PathBuf>,
    /// Number of files that depend on each other with these.
    pub(super) tangled: usize,
}

/// The shortest cycle that spans folders, if there is one, of each group of files that all depend on each other.
pub(super) fn across_folders(imports: &Imports) -> Vec<Cycle> {
    let reached: BTreeMap<&Path, BTreeSet<&Path>> =
        imports.keys().map(|file| (file.as_path(), reached_from(imports, file))).collect();
    let depend = |a: &Path, b: &Path| {
        let reaches = |from, to| reached.get(from).is_some_and(|all: &BTreeSet<&Path>| all.contains(to));
        reaches(a, b) && reaches(b, a)
    };
    let mut done: BTreeSet<&Path> = BTreeSet::new();
    let mut cycles = Vec::new();
    for file in imports.keys() {
        if done.contains(file.as_path()) {
            continue;
        }
        let group: BTreeSet<&Path> =
            imports.keys().map(PathBuf::as_path).filter(|other| depend(file, other)).collect();
        done.extend(&group);
        let crossing = group.iter().flat_map(|from| {
            let next = imports.get(*from).into_iter().flatten().map(PathBuf::as_path);
            let next = next.filter(|to| group.contains(to) && folder(imports, from) != folder(imports, to));
            next.filter_map(|to| Some([vec![from.to_path_buf()], way(imports, to, from)?].concat()))
        });
        // The way ends where the cycle begins.
        let shortest = crossing.min_by_key(Vec::len).map(|mut files| {
            files.pop();
            files
        });
        cycles.extend(shortest.map(|files| Cycle { files, tangled: group.len() }));
    }
    cycles
}

/// The folder that a file belongs to: `kubelet` for `kubelet/mod.rs`, `kubelet/socket.rs`, and for `kubelet.rs` where
/// there is a folder of that name.
fn folder(imports: &Imports, file: &Path) -> PathBuf {
    let own = file.with_extension("");
    if imports.keys().any(|other| other.starts_with(&own)) {
        own
    } else {
        file.parent().map(Path::to_owned).unwrap_or_default()
    }
}

fn reached_from<'a>(imports: &'a Imports, file: &'a Path) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut queue = vec![file];
    while let Some(here) = queue.pop() {
        for next in imports.get(here).into_iter().flatten() {
            if reached.insert(next.as_path()) {
                queue.push(next);
            }
        }
    }
    reached
}

/// The files on the shortest way from one file to another, both included.
fn way(imports: &Imports, from: &Path, to: &Path) -> Option<Vec<PathBuf>> {
    let mut ways = VecDeque::from([vec![from.to_owned()]]);
    let mut seen = BTreeSet::from([from.to_owned()]);
    while let Some(way) = ways.pop_front() {
        let here = way.last()?;
        if here == to {
            return Some(way);
        }
        for next in imports.get(here).into_iter().flatten() {
            if seen.insert(next.clone()) {
                ways.push_back([way.as_slice(), std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cycles among `importer > imported` lines, each as its files and how many are tangled.
    fn cycles(lines: &[&str]) -> Vec<(String, usize)> {
        let mut imports = Imports::new();
        for line in lines {
            let (from, to) = line.split_once(" > ").unwrap();
            imports.entry(from.into()).or_default().insert(to.into());
            imports.entry(to.into()).or_default();
        }
        let text = |cycle: &Cycle| {
            let files: Vec<_> = cycle.files.iter().map(|file| file.display().to_string()).collect();
            (files.join(" "), cycle.tangled)
        };
        across_folders(&imports).iter().map(text).collect()
    }

    #[test]
    fn files_of_one_folder_may_import_each_other() {
        assert_eq!(cycles(&["s/a/x.rs > s/a/y.rs", "s/a/y.rs > s/a/x.rs"]), []);
        assert_eq!(cycles(&["s/a.rs > s/a/x.rs", "s/a/x.rs > s/a.rs"]), [], "a.rs belongs to its folder");
        assert_eq!(cycles(&["s/a/mod.rs > s/a/x.rs", "s/a/x.rs > s/a/mod.rs"]), []);
    }

    #[test]
    fn a_cycle_through_another_folder_is_found() {
        let found = cycles(&[
            "s/a/x.rs > s/b/y.rs",
            "s/b/y.rs > s/a/z.rs",
            "s/a/z.rs > s/a/x.rs",
            "s/c.rs > s/a/x.rs",
        ]);
        assert_eq!(found, [("s/a/x.rs s/b/y.rs s/a/z.rs".to_owned(), 3)]);
        let found = cycles(&["s/a/x.rs > s/lib.rs", "s/lib.rs > s/a/x.rs"]);
        assert_eq!(found, [("s/a/x.rs s/lib.rs".to_owned(), 2)]);
    }

    #[test]
    fn folders_that_import_each_other_without_a_cycle_of_files_are_not_meant() {
        assert_eq!(cycles(&["s/a/x.rs > s/b/x.rs", "s/b/y.rs > s/a/y.rs"]), []);
    }

    #[test]
    fn of_a_tangle_the_shortest_cycle_is_shown_with_the_tangles_size() {
        let lines = [
            "s/a/1.rs > s/b/2.rs",
            "s/b/2.rs > s/b/3.rs",
            "s/b/3.rs > s/a/1.rs",
            "s/b/3.rs > s/c/4.rs",
            "s/c/4.rs > s/b/3.rs",
        ];
        assert_eq!(cycles(&lines), [("s/b/3.rs s/c/4.rs".to_owned(), 4)]);
    }
}
