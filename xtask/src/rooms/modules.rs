//! Reads a crate's modules from its files: which names each declares, and which paths it writes. Code that only tests
//! compile is left out. Read by `imports`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Meta, UseTree, VisRestricted, Visibility};

/// Where a module is, from the crate's root: `["kubelet", "socket"]`.
pub(super) type ModulePath = Vec<String>;

/// The modules of one library or program.
pub(super) type Modules = BTreeMap<ModulePath, Module>;

/// What one module declares and writes.
#[derive(Debug, Default)]
pub(super) struct Module {
    /// The file that it is in; an inline module's is its parent's.
    pub(super) file: PathBuf,
    /// Modules that it declares.
    pub(super) children: BTreeSet<String>,
    /// Other items that it declares.
    pub(super) items: BTreeSet<String>,
    /// Its `use` declarations, one for each name.
    pub(super) uses: Vec<Use>,
    /// Paths of several segments in its code.
    pub(super) paths: BTreeSet<Vec<String>>,
    /// First segments of all paths in its code.
    pub(super) names: BTreeSet<String>,
}

/// One imported name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Use {
    /// The path as it is written, without `as`, a last `self` or `*`.
    pub(super) path: Vec<String>,
    /// The name it gets; none for `*`.
    pub(super) name: Option<String>,
    /// Whether others may import it from here.
    pub(super) is_public: bool,
}

/// Reads the modules below a root file, `lib.rs` or `main.rs`.
///
/// # Errors
/// A file that is missing or is no Rust.
pub(super) fn of(root: &Path) -> anyhow::Result<Modules> {
    let mut modules = Modules::new();
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    read_file(&mut modules, root, Vec::new(), &folder)?;
    Ok(modules)
}

/// `folder` is where the modules are that the file declares.
fn read_file(modules: &mut Modules, file: &Path, at: ModulePath, folder: &Path) -> anyhow::Result<()> {
    let text = fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let parsed = syn::parse_file(&text).with_context(|| format!("{} is no Rust", file.display()))?;
    read_items(modules, &parsed.items, file, at, folder)
}

fn read_items(
    modules: &mut Modules,
    items: &[Item],
    file: &Path,
    at: ModulePath,
    folder: &Path,
) -> anyhow::Result<()> {
    let mut collector = Collector(Module { file: file.to_owned(), ..Module::default() });
    let mut declared: Vec<&ItemMod> = Vec::new();
    for item in items.iter().filter(|item| !is_test_only(item)) {
        match item {
            Item::Mod(module) => declared.push(module),
            item => {
                collector.0.items.extend(name_of(item));
                collector.visit_item(item);
            }
        }
    }
    collector.0.children = declared.iter().map(|module| module.ident.to_string()).collect();
    modules.insert(at.clone(), collector.0);
    for module in declared {
        let name = module.ident.to_string();
        let (mut path, inner) = (at.clone(), folder.join(&name));
        path.push(name.clone());
        match (&module.content, path_attribute(&module.attrs)) {
            (Some((_, items)), _) => read_items(modules, items, file, path, &inner)?,
            (None, Some(other)) => {
                let file = file.parent().unwrap_or(Path::new("")).join(other);
                let folder = file.parent().unwrap_or(Path::new("")).to_owned();
                read_file(modules, &file, path, &folder)?;
            }
            (None, None) => {
                let beside = folder.join(format!("{name}.rs"));
                let file = if beside.is_file() { beside } else { inner.join("mod.rs") };
                if !file.is_file() {
                    bail!("module {} of {} has no file", path.join("::"), folder.display());
                }
                read_file(modules, &file, path, &inner)?;
            }
        }
    }
    Ok(())
}

/// Collects what a module's items write.
struct Collector(Module);

impl Collector {
    fn add_path(&mut self, path: Vec<String>) {
        self.0.names.extend(path.first().cloned());
        if path.len() > 1 {
            self.0.paths.insert(path);
        }
    }

    /// Macros' arguments are no syntax yet: whatever looks like a path is taken for one.
    fn add_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Punct(punct) if punct.as_char() == ':' && !path.is_empty() => colons += 1,
                TokenTree::Ident(ident) if colons == 2 => {
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Ident(ident) => {
                    self.add_path(std::mem::replace(&mut path, vec![ident.to_string()]));
                    colons = 0;
                }
                other => {
                    self.add_path(std::mem::take(&mut path));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.add_tokens(group.stream());
                    }
                }
            }
        }
        self.add_path(path);
    }
}

impl<'ast> Visit<'ast> for Collector {
    /// `pub(in path)` imports nothing.
    fn visit_vis_restricted(&mut self, _: &'ast VisRestricted) {}

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(item) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if item.leading_colon.is_none() {
            let is_public = !matches!(item.vis, Visibility::Inherited);
            flatten(&item.tree, &mut Vec::new(), is_public, &mut self.0.uses);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.add_path(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.add_tokens(call.tokens.clone());
        visit::visit_macro(self, call);
    }
}

fn flatten(tree: &UseTree, prefix: &mut Vec<String>, is_public: bool, uses: &mut Vec<Use>) {
    let mut add = |path: Vec<String>, name: Option<String>| uses.push(Use { path, name, is_public });
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, is_public, uses);
            prefix.pop();
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, is_public, uses);
            }
        }
        UseTree::Glob(_) => add(prefix.clone(), None),
        UseTree::Name(name) if name.ident == "self" => add(prefix.clone(), prefix.last().cloned()),
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            add([prefix.as_slice(), std::slice::from_ref(&name)].concat(), Some(name));
        }
        UseTree::Rename(rename) => {
            let mut path = prefix.clone();
            if rename.ident != "self" {
                path.push(rename.ident.to_string());
            }
            add(path, Some(rename.rename.to_string()));
        }
    }
}

fn name_of(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::TraitAlias(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn is_test_only(item: &Item) -> bool {
    let attributes: &[Attribute] = match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    };
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            let condition = list.tokens.to_string().replace(' ', "");
            condition == "test" || condition.starts_with("all(test")
        }
        _ => false,
    })
}

/// The file of `#[path = ".."]`.
fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| match &attribute.meta {
        Meta::NameValue(pair) if pair.path.is_ident("path") => match &pair.value {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
            _ => None,
        },
        _ => None,
    })
}
