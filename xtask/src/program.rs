//! Runs another program and says what was wrong with it. Called by the chores.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// Runs it with this terminal as its output. Errors: it is not there, or it failed.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    let text = shown(command);
    let status = command.status().with_context(|| format!("cannot start `{text}`"))?;
    if !status.success() {
        bail!("`{text}` failed ({status}); what it printed says why");
    }
    Ok(())
}

/// Runs it and gives its standard output. Errors: it is not there, or it failed; then with what it printed.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let text = shown(command);
    let ended = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{text}`"))?;
    if !ended.status.success() {
        bail!("`{text}` failed ({}): {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}

fn shown(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy()));
    words.join(" ")
}
