//! How a run ends: by a signal too, and with nothing left behind. Called by whoever makes clusters.

use std::future::Future;

use anyhow::anyhow;
use tokio::signal::unix::{SignalKind, signal};

/// What the work gives, unless a signal ends it first: then it is dropped here, and its clusters with it.
///
/// # Errors
/// The work's own, or which signal came.
pub async fn unless_ended<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::select! {
        biased;
        why = signalled() => Err(why),
        result = work => result,
    }
}

/// Returns once a signal asks the program to end: which one came, or why none can be waited for.
pub async fn signalled() -> anyhow::Error {
    let streams =
        signal(SignalKind::terminate()).and_then(|first| Ok((first, signal(SignalKind::hangup())?)));
    let (mut terminate, mut hang_up) = match streams {
        Ok(streams) => streams,
        Err(error) => return error.into(),
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => anyhow!("interrupted"),
        _ = terminate.recv() => anyhow!("terminated"),
        _ = hang_up.recv() => anyhow!("the terminal is gone"),
    }
}

/// The result of work that is over, unless something of it stayed behind.
///
/// # Errors
/// The work's own, what is left, or that this cannot be told.
pub async fn with_nothing_left<T>(
    result: anyhow::Result<T>,
    left: impl Future<Output = anyhow::Result<Vec<String>>>,
) -> anyhow::Result<T> {
    let left = match left.await {
        Ok(left) if left.is_empty() => return result,
        Ok(left) => anyhow!("left behind: {}", left.join(", ")),
        Err(error) => error.context("looking for what stayed behind"),
    };
    Err(match result {
        Ok(_) => left,
        Err(error) => error.context(format!("{left:#}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn ended(result: anyhow::Result<()>, left: anyhow::Result<Vec<String>>) -> String {
        let ended = with_nothing_left(result, async { left }).await;
        ended.map_or_else(|error| format!("{error:#}"), |()| "well".to_owned())
    }

    #[tokio::test]
    async fn what_stayed_behind_is_told_however_the_work_ended() {
        let node = || Ok(vec!["container a".to_owned(), "volume b".to_owned()]);
        assert_eq!(ended(Ok(()), Ok(Vec::new())).await, "well");
        assert_eq!(ended(Ok(()), node()).await, "left behind: container a, volume b");
        assert_eq!(ended(Err(anyhow!("interrupted")), Ok(Vec::new())).await, "interrupted");
        assert_eq!(
            ended(Err(anyhow!("interrupted")), node()).await,
            "left behind: container a, volume b: interrupted"
        );
    }
}
