//! Waiting for the cluster's own parts while it is brought up or changed, before a scenario has its own patience.

use std::future::Future;
use std::time::Duration;

use anyhow::bail;
use tokio::time::{Instant, timeout};

/// Time between two looks.
pub(super) const LOOK: Duration = Duration::from_millis(150);
/// Longest wait for one part of the cluster.
pub(super) const LONGEST: Duration = Duration::from_secs(120);

/// Waits until the condition holds; an error that says what was waited for after [`LONGEST`].
pub(crate) async fn until<F: Future<Output = anyhow::Result<bool>>>(
    what: &str,
    condition: impl FnMut() -> F,
) -> anyhow::Result<()> {
    within(LONGEST, what, condition).await
}

/// As [`until`], with another limit.
pub(super) async fn within<F: Future<Output = anyhow::Result<bool>>>(
    limit: Duration,
    what: &str,
    mut condition: impl FnMut() -> F,
) -> anyhow::Result<()> {
    let look = || {
        let condition = condition();
        async { Ok(condition.await?.then_some(())) }
    };
    found_within(limit, what, look).await
}

/// Looks until there is something, and gives it; an error that says what was waited for after [`LONGEST`].
pub(crate) async fn found<T, F: Future<Output = anyhow::Result<Option<T>>>>(
    what: &str,
    look: impl FnMut() -> F,
) -> anyhow::Result<T> {
    found_within(LONGEST, what, look).await
}

async fn found_within<T, F: Future<Output = anyhow::Result<Option<T>>>>(
    limit: Duration,
    what: &str,
    mut look: impl FnMut() -> F,
) -> anyhow::Result<T> {
    let deadline = Instant::now() + limit;
    loop {
        // A program or a server that never answers would be waited for without end.
        let looked = timeout(limit, look()).await;
        match looked.unwrap_or_else(|_| bail!("no answer for {} s", limit.as_secs())) {
            Ok(Some(found)) => return Ok(found),
            Ok(None) => {}
            // The API server may be away for a moment; what it said last is told if it stays so.
            Err(error) if Instant::now() >= deadline => {
                return Err(error.context(format!("waiting for {what}")));
            }
            Err(_) => {}
        }
        if Instant::now() >= deadline {
            bail!("waited {} s for {what}", limit.as_secs());
        }
        tokio::time::sleep(LOOK).await;
    }
}
