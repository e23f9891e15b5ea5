//! The engine's way to wait: for a condition, with the cluster's timeout, while the cluster lets time pass.

use std::time::Duration;

use testkit_support::Wait;
use tokio::sync::Mutex;

use crate::cluster::Cluster;

/// Waits until `condition` holds. A look that fails is tried again: an API server or a kubelet may be away for a moment.
///
/// # Errors
/// The cluster's timeout is over, at the processors' pace: `what` was waited for, and the error of the last look.
pub async fn until<C: Cluster>(
    cluster: &C,
    what: &str,
    condition: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    until_within(cluster, cluster.timeout(), what, condition).await
}

/// As [`until`], with a time of the caller's own in place of the cluster's timeout.
///
/// # Errors
/// As [`until`].
pub async fn until_within<C: Cluster>(
    cluster: &C,
    timeout: Duration,
    what: &str,
    condition: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    // The cluster itself waits between two looks.
    let wait = Wait { timeout, poll: Duration::ZERO };
    // Looks never overlap. The lock lends the condition to one look after another, which a closure that owns it cannot.
    let condition = Mutex::new(condition);
    wait.until(what, async || {
        let looked = (condition.lock().await)().await;
        if !matches!(looked, Ok(true)) {
            cluster.pass_time().await;
        }
        looked
    })
    .await
}
