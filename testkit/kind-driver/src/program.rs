//! Runs docker, kind, kubectl and cargo as programs, and says what was wrong with them. Used by everything here, and by whoever builds on it.

use std::process::Stdio;

use anyhow::{Context as _, bail};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// Runs a program to its end and gives its standard output. It ends when the future is dropped.
///
/// # Errors
/// It is not there, or it failed; then with what it printed.
pub async fn output(name: &str, arguments: &[&str]) -> anyhow::Result<String> {
    output_from(name, arguments, "").await
}

/// Gives what [`output`] does, with this text on the program's standard input.
///
/// # Errors
/// As [`output`].
pub async fn output_from(name: &str, arguments: &[&str], input: &str) -> anyhow::Result<String> {
    let shown = format!("{name} {}", arguments.join(" "));
    let mut child = Command::new(name)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start `{shown}`"))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that does not read its input says itself what was wrong.
        let _unread = stdin.write_all(input.as_bytes()).await;
    }
    let ended = child.wait_with_output().await.with_context(|| format!("`{shown}` broke off"))?;
    if !ended.status.success() {
        bail!("`{shown}` failed ({}): {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&ended.stdout).into_owned())
}
