//! Every command of `contribute.md` works as it stands: its files are written to a folder, and its commands are run there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::path::Path;
use std::process::Command;

use pulldown_cmark::{CodeBlockKind, Event, Parser, Tag, TagEnd};

/// One step of a page.
enum Step {
    /// A code block with `file=NAME` behind its language.
    File { name: String, text: String },
    /// A line of an indented code block.
    Command(String),
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let (mut block, mut text) = (None, String::new());
    for event in Parser::new(page) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => (block, text) = (Some(kind), String::new()),
            Event::Text(part) if block.is_some() => text.push_str(&part),
            Event::End(TagEnd::CodeBlock) => match block.take() {
                Some(CodeBlockKind::Indented) => {
                    steps.extend(text.lines().map(|line| Step::Command(line.trim().to_owned())));
                }
                Some(CodeBlockKind::Fenced(info)) => {
                    let name = info.split_whitespace().find_map(|word| word.strip_prefix("file="));
                    steps.extend(name.map(|name| Step::File { name: name.to_owned(), text: text.clone() }));
                }
                None => {}
            },
            _ => {}
        }
    }
    steps
}

/// Runs a `cargo run -p PACKAGE -- ARGUMENTS` in this folder.
fn run(command: &str, folder: &Path) {
    let mut words = command.split_whitespace();
    assert!(
        words.next() == Some("cargo") && words.next() == Some("run"),
        "{command}: only `cargo run` is known to this test"
    );
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let output = Command::new(env!("CARGO"))
        .args(["run", "--quiet", "--manifest-path", manifest])
        .args(words)
        .current_dir(folder)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{command}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn the_commands_of_contribute_work() {
    let steps = steps(include_str!("../contribute.md"));
    let commands = steps.iter().filter(|step| matches!(step, Step::Command(_))).count();
    assert!(commands >= 4, "only {commands} commands were found");
    let folder = tempfile::tempdir().unwrap();
    for step in steps {
        match step {
            Step::File { name, text } => std::fs::write(folder.path().join(name), text).unwrap(),
            Step::Command(command) => run(&command, folder.path()),
        }
    }
}
