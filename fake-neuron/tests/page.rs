//! The commands of `docs/fake-hardware.md` print what the page says.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod python;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use python::PYTHON;

/// A fenced block: what stands behind its backticks, and its lines.
struct Block<'a> {
    info: &'a str,
    text: &'a str,
}

fn read_page() -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/fake-hardware.md")).unwrap()
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    // Every second part is inside a block.
    let inside = page.split("\n```").skip(1).step_by(2);
    inside.map(|part| part.split_once('\n').unwrap()).map(|(info, text)| Block { info, text }).collect()
}

/// Each command of a console block, and the lines that follow it.
fn commands(block: &str) -> Vec<(&str, String)> {
    let starts = block.split("\n$ ").map(|part| part.strip_prefix("$ ").unwrap_or(part));
    starts
        .map(|part| {
            let (command, expected) = part.split_once('\n').unwrap_or((part, ""));
            (command, expected.trim_end().to_owned())
        })
        .collect()
}

/// Why a block cannot be run that needs this program; none where it is there.
fn missing(needed: &str) -> Option<String> {
    if needed == "pytest" {
        return PYTHON.as_ref().err().cloned();
    }
    let is_there = Command::new(needed).arg("version").output().is_ok_and(|output| output.status.success());
    (!is_there).then(|| format!("{needed} is not there"))
}

fn run(command: &str, folder: &Path) -> String {
    let python = PYTHON.as_ref().map(|programs| format!("{}:", programs.display())).unwrap_or_default();
    let path = format!("{}:{python}{}", folder.join("bin").display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-c", &command.replace("/tmp/try", folder.to_str().unwrap())])
        .current_dir(folder.join("work"))
        .env("PATH", path)
        .env_remove("FAKE_NEURON_ROOT")
        .env_remove("NEURON_ROOT")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{command}");
    String::from_utf8(output.stdout).unwrap().replace(folder.to_str().unwrap(), "/tmp/try")
}

#[test]
fn the_page_shows_the_rust_test_that_is_run() {
    let page = read_page();
    let rust: Vec<&str> =
        blocks(&page).iter().filter(|block| block.info == "rust").map(|block| block.text).collect();
    let [shown] = rust[..] else { panic!("{} blocks of Rust", rust.len()) };
    assert!(
        include_str!("page_rust.rs").contains(shown),
        "tests/page_rust.rs has another test than the page:\n{shown}"
    );
}

#[test]
fn the_page_shows_what_the_commands_print() {
    let page = read_page();
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    for name in ["bin", "work"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    symlink(env!("CARGO_BIN_EXE_fake-neuron"), folder.join("bin/fake-neuron")).unwrap();
    let possible = Command::new(env!("CARGO_BIN_EXE_fake-neuron"))
        .args(["exec", "--instance-type", "inf2.xlarge", "--", "true"])
        .output()
        .unwrap();
    let why = String::from_utf8_lossy(&possible.stderr);
    let can_exec = possible.status.success();
    assert!(can_exec || std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "{why}");

    let mut compared = 0;
    for Block { info, text } in blocks(&page) {
        if let Some((_, name)) = info.split_once(" file=") {
            fs::write(folder.join("work").join(name), text).unwrap();
        }
        if let Some(needed) = info.strip_prefix("console needs=")
            && let Some(why) = missing(needed)
        {
            let required = if needed == "pytest" { "NEURON_REQUIRE_PYPI" } else { "NEURON_REQUIRE_FAKE" };
            assert!(std::env::var_os(required).is_none(), "{required} is set, but {why}");
            println!("skipped: {why}");
            continue;
        }
        if !info.starts_with("console") {
            continue;
        }
        for (command, expected) in commands(text) {
            if command.contains("fake-neuron exec") && !can_exec {
                println!("skipped: {why}");
                continue;
            }
            assert_eq!(run(command, &folder).trim_end(), expected, "{command}");
            compared += 1;
        }
    }
    assert!(compared >= 8, "only {compared} commands were found");
}
