//! Every command of `contribute.md` works as it stands: its files are written to a folder, and its commands are run there.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

use std::env;
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
    let (package, arguments) =
        command.strip_prefix("cargo run -p ").and_then(|rest| rest.split_once(" -- ")).unwrap_or_else(|| {
            panic!("{command}: only `cargo run -p PACKAGE -- ARGUMENTS` is known to this test")
        });
    let output = program(package).args(arguments.split_whitespace()).current_dir(folder).output().unwrap();
    assert!(
        output.status.success(),
        "{command}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// That of the package which `cargo test --workspace` has built, beside the folder of the tests. cargo would build it again, which takes
/// minutes: a package alone has other features of its dependencies.
fn program(package: &str) -> Command {
    let test = env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap().join(package);
    if built.exists() {
        return Command::new(built);
    }
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["run", "--quiet", "--manifest-path", manifest, "--package", package, "--"]);
    cargo
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
