//! The workspace as cargo sees it: its crates, nested ones included, and what each depends on. Read by every check of crates
//! and by `rooms`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use anyhow::Context;
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package, PackageId, TargetKind};

use crate::program;

/// The workspace's crates and everything they depend on.
pub(crate) struct Workspace {
    /// Crates by name.
    pub(crate) crates: Vec<Crate>,
    /// Names of the packages that a package links, by name. Development and build dependencies are left out.
    pub(crate) links: BTreeMap<String, BTreeSet<String>>,
}

/// A crate of the workspace.
pub(crate) struct Crate {
    /// The package's name.
    pub(crate) name: String,
    /// The folder of its `Cargo.toml`.
    pub(crate) folder: PathBuf,
    /// The root file of its library and of each program.
    pub(crate) roots: Vec<PathBuf>,
    /// Workspace crates that it links or builds with.
    pub(crate) normal: BTreeSet<String>,
    /// Workspace crates that only its tests use.
    pub(crate) development: BTreeSet<String>,
}

impl Workspace {
    /// Asks cargo about the workspace in `folder`.
    ///
    /// # Errors
    /// Cargo cannot read it.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Workspace> {
        let mut command = MetadataCommand::new();
        // cargo without a platform wants to have downloaded the dependencies of every platform.
        command.current_dir(folder).other_options(vec![
            "--filter-platform".to_owned(),
            program::host_triple()?,
            "--locked".to_owned(),
        ]);
        let metadata = command.exec().with_context(|| format!("cargo metadata in {}", folder.display()))?;
        Ok(Workspace::of(&metadata))
    }

    fn of(metadata: &Metadata) -> Workspace {
        let members = metadata.workspace_packages();
        let names: BTreeSet<&str> = members.iter().map(|package| package.name.as_str()).collect();
        let mut crates: Vec<Crate> = members.iter().map(|package| Crate::of(package, &names)).collect();
        crates.sort_by(|a, b| a.name.cmp(&b.name));
        let package_of = |id: &PackageId| metadata.packages.iter().find(|package| package.id == *id);
        let mut links: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
            let Some(from) = package_of(&node.id) else { continue };
            let linked = node.deps.iter().filter(|dependency| {
                dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal)
            });
            let linked = linked.filter_map(|dependency| Some(package_of(&dependency.pkg)?.name.to_string()));
            links.entry(from.name.to_string()).or_default().extend(linked);
        }
        Workspace { crates, links }
    }

    /// The packages on the shortest way from one package to another, both included; none if it is not reached.
    pub(crate) fn way(&self, from: &str, to: &str) -> Option<Vec<String>> {
        let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
        let mut queue = VecDeque::from([from]);
        while let Some(here) = queue.pop_front() {
            if here == to {
                let mut way = vec![here.to_owned()];
                let mut at = here;
                while let Some(before) = came_from.get(at) {
                    way.insert(0, (*before).to_owned());
                    at = before;
                }
                return Some(way);
            }
            for next in self.links.get(here).into_iter().flatten() {
                if next != from && !came_from.contains_key(next.as_str()) {
                    came_from.insert(next, here);
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

impl Crate {
    fn of(package: &Package, workspace: &BTreeSet<&str>) -> Crate {
        let (mut normal, mut development) = (BTreeSet::new(), BTreeSet::new());
        for dependency in &package.dependencies {
            if !workspace.contains(dependency.name.as_str()) {
                continue;
            }
            let kind =
                if dependency.kind == DependencyKind::Development { &mut development } else { &mut normal };
            kind.insert(dependency.name.clone());
        }
        let is_shipped = |kind: &TargetKind| {
            matches!(kind, TargetKind::Lib | TargetKind::RLib | TargetKind::ProcMacro | TargetKind::Bin)
        };
        let roots = package.targets.iter().filter(|target| target.kind.iter().any(is_shipped));
        Crate {
            name: package.name.to_string(),
            folder: package
                .manifest_path
                .parent()
                .map(|folder| folder.as_std_path().to_owned())
                .unwrap_or_default(),
            roots: roots.map(|target| target.src_path.as_std_path().to_owned()).collect(),
            normal,
            development,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write(folder: &Path, path: &str, text: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn package(name: &str, rest: &str) -> String {
        format!("[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\n{rest}")
    }

    #[test]
    fn the_way_is_the_shortest_and_circles_do_not_hold_it_up() {
        let links =
            [("a", &["b", "c"][..]), ("b", &["a", "d"]), ("c", &["b"]), ("d", &["b", "e"]), ("e", &[])];
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let links = links.iter().map(|(from, to)| ((*from).to_owned(), set(to))).collect();
        let workspace = Workspace { crates: Vec::new(), links };
        assert_eq!(workspace.way("a", "e").unwrap(), ["a", "b", "d", "e"]);
        assert_eq!(workspace.way("e", "a"), None);
    }

    #[test]
    fn a_nested_crate_is_seen_with_what_it_depends_on() {
        let folder = tempfile::tempdir().unwrap();
        let at = &folder.path().join("workspace");
        write(at, "Cargo.toml", "[workspace]\nresolver = \"3\"\nmembers = [\"a\", \"a/nested/b\"]\n");
        write(at, "a/Cargo.toml", &package("a", "[dev-dependencies]\nb = { path = \"nested/b\" }\n"));
        write(at, "a/src/main.rs", "fn main() {}\n");
        write(
            at,
            "a/nested/b/Cargo.toml",
            &package("b", "[dependencies]\nc = { path = \"../../../../c\" }\n"),
        );
        write(at, "a/nested/b/src/lib.rs", "");
        // Outside of the workspace, and so no crate of it.
        write(folder.path(), "c/Cargo.toml", &package("c", ""));
        write(folder.path(), "c/src/lib.rs", "");
        let locked =
            |name: &str, rest: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"0.1.0\"\n{rest}\n");
        let (a, b) =
            (locked("a", "dependencies = [\n \"b\",\n]\n"), locked("b", "dependencies = [\n \"c\",\n]\n"));
        write(at, "Cargo.lock", &format!("version = 4\n\n{a}{b}{}", locked("c", "")));

        let workspace = Workspace::read(at).unwrap();
        let names: Vec<&str> = workspace.crates.iter().map(|known| known.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let (a, b) = (&workspace.crates[0], &workspace.crates[1]);
        assert_eq!((a.normal.len(), a.development.contains("b")), (0, true));
        assert!(a.roots[0].ends_with("a/src/main.rs") && b.roots[0].ends_with("a/nested/b/src/lib.rs"));
        assert_eq!(workspace.way("b", "c").unwrap(), ["b", "c"]);
        assert_eq!(workspace.way("a", "c"), None, "a's tests are not what it links");
    }
}
