//! The signals that end a program.

use anyhow::Context as _;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// A token that SIGTERM or SIGINT cancels; which of them came is logged.
///
/// # Errors
/// The signals cannot be listened for.
#[allow(clippy::disallowed_methods, reason = "a simulation has no signals: programs are killed there")]
pub fn until_signal() -> anyhow::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let token = CancellationToken::new();
    let cancel = token.clone();
    tokio::spawn(async move {
        let signal = tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        };
        tracing::info!(reason = signal, "ending");
        cancel.cancel();
    });
    Ok(token)
}
