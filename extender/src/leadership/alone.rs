//! How an extender without an election begins to place pods. Called by [`crate::serve`].

use runtime::reached;
use tokio::time::{Instant, sleep_until};
use tracing::info;

use super::Leadership;
use crate::index::{Cluster, Index};

/// Has the leadership begin. A process before this one may have been killed with a Binding under way that no list shows yet; its pod waits in
/// the first list. The API server has answered such a Binding or given it up when `earlier_bindings_end` is reached.
pub(crate) async fn begin(leadership: &Leadership, cluster: &Cluster, earlier_bindings_end: Instant) {
    cluster.is_listed_at_last().await;
    if cluster.read(Index::has_pending_pods) {
        reached("extender: start while pods wait");
        sleep_until(earlier_bindings_end).await;
        cluster.relist.pods_are_listed().await;
        info!("no Binding of an earlier process is under way any more; pods are placed from now on");
    }
    leadership.begin();
}
