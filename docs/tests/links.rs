//! Every relative link of the repository's Markdown leads to a file that is there, and every anchor to a heading in it.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The Markdown files that git knows or would take, by their paths from the root.
fn pages() -> Vec<PathBuf> {
    let arguments = ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "*.md"];
    let output = Command::new("git").args(arguments).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(PathBuf::from).filter(|path| root().join(path).exists()).collect()
}

/// What a page links to, and the anchors that its headings make.
#[derive(Default)]
struct Page {
    links: Vec<String>,
    anchors: BTreeSet<String>,
}

fn read(text: &str) -> Page {
    let mut page = Page::default();
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                page.links.push(dest_url.into_string());
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                let anchor = anchor(&heading.take().unwrap_or_default());
                let taken = |anchor: &String| page.anchors.contains(anchor);
                let numbered = (1..).map(|number| format!("{anchor}-{number}"));
                let free = std::iter::once(anchor.clone()).chain(numbered).find(|anchor| !taken(anchor));
                page.anchors.extend(free);
            }
            Event::Text(text) | Event::Code(text) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&text);
                }
            }
            _ => {}
        }
    }
    page
}

/// The anchor that GitHub makes of a heading: lower case, blanks as dashes, no punctuation.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|sign| sign.is_alphanumeric() || matches!(sign, ' ' | '-' | '_'));
    kept.map(|sign| if sign == ' ' { '-' } else { sign }).collect()
}

/// What is wrong with one page's links.
fn broken(path: &Path, page: &Page) -> Vec<String> {
    let mut broken = Vec::new();
    for link in page.links.iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
        let (file, anchor) =
            link.split_once('#').map_or((link.as_str(), None), |(file, to)| (file, Some(to)));
        let target = if file.is_empty() { path.to_owned() } else { path.parent().unwrap().join(file) };
        if !root().join(&target).exists() {
            broken.push(format!("{}: {link} leads to no file", path.display()));
        } else if let Some(anchor) = anchor {
            let text = std::fs::read_to_string(root().join(&target)).unwrap_or_default();
            if !read(&text).anchors.contains(anchor) {
                broken.push(format!("{}: {link} names no heading", path.display()));
            }
        }
    }
    broken
}

#[test]
fn every_link_and_anchor_leads_somewhere() {
    let pages = pages();
    assert!(pages.len() > 20, "few pages were found: {pages:?}");
    let broken: Vec<String> = pages
        .iter()
        .flat_map(|path| broken(path, &read(&std::fs::read_to_string(root().join(path)).unwrap())))
        .collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_is_in_the_books_summary() {
    let summary = read(&std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap());
    let linked: BTreeSet<&str> = summary.links.iter().map(String::as_str).collect();
    let pages = pages();
    let missing: Vec<_> = pages
        .iter()
        .filter_map(|path| path.strip_prefix("docs").ok()?.to_str())
        .filter(|path| *path != "SUMMARY.md" && !linked.contains(path))
        .collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md leaves out {missing:?}");
}

#[test]
fn a_link_to_nothing_and_an_anchor_of_no_heading_are_found() {
    let page =
        read("# A `b` & C\n[one](nowhere.md) [two](glossary.md#hardware) [three](glossary.md#nothing)\n");
    assert_eq!(
        broken(Path::new("docs/new.md"), &page),
        ["docs/new.md: nowhere.md leads to no file", "docs/new.md: glossary.md#nothing names no heading"]
    );
    assert!(page.anchors.contains("a-b--c"));
}
