//! Which file of a crate imports which: every path is followed to the file that declares what it names, through
//! re-exports. A module's re-export of what its own submodules declare is a name on its door and no import. Called by `rooms`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::modules::{Module, ModulePath, Modules, Use};

/// The files that each file imports.
pub(super) type Imports = BTreeMap<PathBuf, BTreeSet<PathBuf>>;

/// Longest chain of re-exports that is followed.
const MOST_REEXPORTS: usize = 16;

/// The imports between the files of one library or program.
pub(super) fn between_files(modules: &Modules) -> Imports {
    let mut imports = Imports::new();
    for (at, module) in modules {
        let own = imports.entry(module.file.clone()).or_default();
        let used = module.uses.iter().filter(|used| !is_door(modules, at, module, used));
        let paths = used.map(|used| &used.path).chain(&module.paths);
        let files = paths.filter_map(|path| modules.get(&target(modules, at, path, 0)?.0));
        own.extend(files.map(|other| other.file.clone()).filter(|file| *file != module.file));
    }
    imports
}

/// Whether the module only passes on what a submodule declares, and does not use it itself.
fn is_door(modules: &Modules, at: &ModulePath, module: &Module, used: &Use) -> bool {
    let is_below =
        target(modules, at, &used.path, 0).is_some_and(|(to, _)| to.len() > at.len() && to.starts_with(at));
    let is_needed = used.name.as_ref().is_some_and(|name| module.names.contains(name));
    used.is_public && is_below && !is_needed
}

/// The module that declares what `path` names when it is written in module `at`, and whether it is the module itself that
/// is named. None for paths out of the crate.
fn target(modules: &Modules, at: &ModulePath, path: &[String], depth: usize) -> Option<(ModulePath, bool)> {
    let (first, mut rest) = path.split_first()?;
    let module = modules.get(at)?;
    let mut from = at.clone();
    match first.as_str() {
        "crate" => from.clear(),
        "self" => {}
        "super" => {
            from.pop()?;
            while let Some(("super", further)) =
                rest.split_first().map(|(next, further)| (next.as_str(), further))
            {
                from.pop()?;
                rest = further;
            }
        }
        name if module.children.contains(name) => from.push(name.to_owned()),
        name => {
            // A name that was imported, such as `disk` in `disk::place` after `use crate::disk`.
            let used =
                module.uses.iter().find(|used| used.name.as_deref() == Some(name) && used.path != path)?;
            if depth >= MOST_REEXPORTS {
                return None;
            }
            let (to, true) = target(modules, at, &used.path, depth + 1)? else { return None };
            from = to;
        }
    }
    walk(modules, from, rest, depth)
}

/// Follows `path` from a module inward.
fn walk(modules: &Modules, mut at: ModulePath, path: &[String], depth: usize) -> Option<(ModulePath, bool)> {
    let Some((name, rest)) = path.split_first() else { return Some((at, true)) };
    let module = modules.get(&at)?;
    if module.children.contains(name) {
        at.push(name.clone());
        return walk(modules, at, rest, depth);
    }
    if module.items.contains(name) || depth >= MOST_REEXPORTS {
        return Some((at, false));
    }
    if let Some(used) = module.uses.iter().find(|used| used.name.as_ref() == Some(name)) {
        return match target(modules, &at, &used.path, depth + 1) {
            Some((to, true)) => walk(modules, to, rest, depth + 1),
            Some(declared) => Some(declared),
            // What another crate declares is named by this one.
            None => Some((at, false)),
        };
    }
    let mut globs = module.uses.iter().filter(|used| used.name.is_none());
    let behind = globs.find_map(|glob| match target(modules, &at, &glob.path, depth + 1) {
        Some((to, true)) if declares(modules, &to, name, depth + 1) => Some(to),
        _ => None,
    });
    match behind {
        Some(to) => walk(modules, to, path, depth + 1),
        None => Some((at, false)),
    }
}

/// Whether the module has an item or a module of this name, or lets others import one from it.
fn declares(modules: &Modules, at: &ModulePath, name: &str, depth: usize) -> bool {
    let Some(module) = modules.get(at).filter(|_| depth < MOST_REEXPORTS) else { return false };
    let passes_on = |used: &Use| match &used.name {
        Some(own) => own == name,
        None => target(modules, at, &used.path, depth + 1)
            .is_some_and(|(to, is_module)| is_module && declares(modules, &to, name, depth + 1)),
    };
    module.children.contains(name)
        || module.items.contains(name)
        || module.uses.iter().filter(|used| used.is_public).any(passes_on)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::modules;
    use super::*;

    /// Who imports whom in a crate of these files, as `importer > imported`.
    fn imports(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let imports = between_files(&modules::of(&folder.path().join("lib.rs")).unwrap());
        let name = |file: &PathBuf| file.strip_prefix(folder.path()).unwrap().display().to_string();
        let each = imports.iter().flat_map(|(from, all)| all.iter().map(move |to| (from, to)));
        let mut lines: Vec<String> =
            each.map(|(from, to)| format!("{} > {}", name(from), name(to))).collect();
        lines.sort();
        lines
    }

    #[test]
    fn every_way_to_write_a_path_is_followed() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c; mod d; mod e;"),
            ("a.rs", "use crate::b::B; pub(crate) struct A;"),
            ("b/mod.rs", "pub(crate) mod inner; pub(crate) struct B;"),
            ("b/inner.rs", "use super::super::c::{self, *}; fn f() { c::f() }"),
            ("c.rs", "pub(crate) fn f() -> crate::a::A { crate::d::f() }"),
            (
                "d.rs",
                "pub(crate) fn f() -> ! { println!(\"{}\", crate::e::TEXT); x!(crate: a, crate :: , a : b); loop {} }",
            ),
            (
                "e.rs",
                "pub(crate) const TEXT: &str = \"\"; use std::fmt; fn g(x: fmt::Result) { serde_json::to_string(x) }",
            ),
        ];
        let found = imports(&files);
        let expected = ["a.rs > b/mod.rs", "b/inner.rs > c.rs", "c.rs > a.rs", "c.rs > d.rs", "d.rs > e.rs"];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_re_export_leads_to_the_file_that_declares_and_is_no_import_itself() {
        let files = [
            ("lib.rs", "mod error; mod a; mod b; pub use error::Error; pub use b::*;"),
            ("error.rs", "pub(in crate::b) struct Error;"),
            ("a.rs", "use crate::{Deep, Error}; fn f() -> super::B { todo!() }"),
            ("b.rs", "mod deep; pub use deep::Deep; pub struct B;"),
            ("b/deep.rs", "pub struct Deep;"),
        ];
        assert_eq!(imports(&files), ["a.rs > b.rs", "a.rs > b/deep.rs", "a.rs > error.rs"]);
    }

    #[test]
    fn a_module_that_uses_what_it_re_exports_imports_it() {
        let files = [
            ("lib.rs", "mod a;"),
            ("a.rs", "mod b; pub use b::B; pub struct A(B);"),
            ("a/b.rs", "use super::A; pub struct B;"),
        ];
        assert_eq!(imports(&files), ["a.rs > a/b.rs", "a/b.rs > a.rs"]);
    }

    #[test]
    fn what_only_tests_compile_is_left_out() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "#[cfg(test)] mod tests { use crate::b::B; } #[cfg(test)] use crate::b::B;"),
            ("b.rs", "pub(crate) struct B; #[cfg(all(test, unix))] mod tests;"),
        ];
        assert_eq!(imports(&files), Vec::<String>::new());
    }

    #[test]
    fn a_path_behind_an_imported_module_is_followed() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::b as other; fn f() { other::inner::g(); std::mem::swap(); missing::h() }"),
            ("b.rs", "pub mod inner; mod deeper; pub use deeper::*;"),
            ("b/inner.rs", "pub fn g() {}"),
            ("b/deeper.rs", "mod deepest; pub use deepest::*;"),
            ("b/deeper/deepest.rs", "pub struct Deepest; pub mod leaf { pub fn l() {} }"),
            ("c.rs", "use crate::b::Deepest; fn f() { crate::b::leaf::l(); crate::b::nowhere(); }"),
        ];
        let found = imports(&files);
        assert_eq!(found, ["a.rs > b.rs", "a.rs > b/inner.rs", "c.rs > b.rs", "c.rs > b/deeper/deepest.rs"]);
    }

    #[test]
    fn re_exports_in_a_circle_end() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "pub use crate::b::Name; pub use crate::b::*;"),
            ("b.rs", "pub use crate::a::Name; pub use crate::a::*;"),
            ("c.rs", "use crate::a::{Name, Other};"),
        ];
        let found = imports(&files);
        assert!(
            found.contains(&"a.rs > b.rs".to_owned()) && found.contains(&"b.rs > a.rs".to_owned()),
            "{found:?}"
        );
    }

    #[test]
    fn an_inline_module_is_its_files() {
        let files = [
            ("lib.rs", "mod a; mod b;"),
            ("a.rs", "mod inner { use super::super::b::B; use super::A; } struct A;"),
            ("b.rs", "pub(crate) struct B;"),
        ];
        assert_eq!(imports(&files), ["a.rs > b.rs"]);
    }
}
