//! The one way to wait: for a condition, with a deadline, while the cluster lets time pass.

use anyhow::bail;
use tokio::time::{Instant, timeout};

use crate::cluster::Cluster;

/// Waits until `condition` holds. After the cluster's patience, or twice that where the last look gets no answer, an
/// error that says what was waited for, and with what error the condition ended if it could not even be looked at: an
/// API server or a kubelet may be away for a moment.
pub async fn until<C: Cluster>(
    cluster: &C,
    what: &str,
    mut condition: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let wait = Wait::new(cluster, what);
    loop {
        // A program or a server that never answers would be waited for without end.
        let looked = timeout(cluster.patience(), condition()).await;
        match looked.unwrap_or_else(|_| bail!("no answer for {} s", cluster.patience().as_secs())) {
            Ok(true) => return Ok(()),
            Ok(false) => wait.look_again().await?,
            Err(error) => match wait.look_again().await {
                Ok(()) => {}
                Err(ended) => return Err(error.context(ended)),
            },
        }
    }
}

/// One wait under way; the loop around it is the caller's.
pub struct Wait<'a, C> {
    cluster: &'a C,
    what: &'a str,
    deadline: Instant,
}

impl<'a, C: Cluster> Wait<'a, C> {
    /// A wait that may last as long as the cluster's patience.
    pub fn new(cluster: &'a C, what: &'a str) -> Self {
        Self { cluster, what, deadline: Instant::now() + cluster.patience() }
    }

    /// Lets time pass until the next look, or says that patience has ended.
    pub async fn look_again(&self) -> anyhow::Result<()> {
        if Instant::now() >= self.deadline {
            bail!("waited {} s for {}", self.cluster.patience().as_secs(), self.what);
        }
        self.cluster.pass_time().await;
        Ok(())
    }
}
