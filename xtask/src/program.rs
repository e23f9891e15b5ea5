//! Runs other programs, and finds what they need to know of this workspace. Called by the chores.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Runs it with this terminal as its output.
///
/// # Errors
/// It is not there, or it failed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let text = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status}); its output tells why");
    }
    Ok(())
}

/// Runs it and gives its standard output.
///
/// # Errors
/// It is not there, or it failed; then with its standard error.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let text = shown(command);
    let ended = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{text}`"))?;
    if !ended.status.success() {
        bail!("`{text}` failed ({}): {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

/// The workspace's folder.
///
/// # Errors
/// Xtask was compiled elsewhere.
pub(crate) fn workspace_folder() -> anyhow::Result<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    folder.map(Path::to_owned).context("xtask is not in its workspace")
}

/// The cargo that runs this program.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// This machine's target, such as `x86_64-unknown-linux-gnu`.
///
/// # Errors
/// No rustc.
pub(crate) fn host_triple() -> anyhow::Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("`rustc -vV` names no host")?.to_owned())
}

/// Prints a line. A reader that has gone, as in `cargo xtask rooms | head`, is no failure.
///
/// # Errors
/// It cannot be printed.
pub(crate) fn print(line: &str) -> anyhow::Result<()> {
    match writeln!(io::stdout(), "{line}") {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error).context("cannot print"),
        _ => Ok(()),
    }
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
