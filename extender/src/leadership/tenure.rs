//! What a replica does when it becomes the leader, and when it does not lead any more. Started by [`crate::serve`].

use std::sync::Arc;

use runtime::reached;
use tokio::sync::watch;
use tracing::{info, warn};

use super::Leadership;
use super::label::LeaderLabel;
use crate::index::Cluster;

/// Follows the leadership.
pub(crate) struct Tenure {
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) cluster: Arc<Cluster>,
    /// The label of the leader's pod; none if no pod is labelled.
    pub(crate) label: Option<LeaderLabel>,
    /// Counts the tenures that have ended: open connections are closed with each, since kube-scheduler keeps those to a deposed leader.
    pub(crate) ended: watch::Sender<u64>,
}

impl Tenure {
    /// Follows it until the future is dropped.
    pub(crate) async fn run(self) {
        loop {
            let tenure = self.leadership.begins().await;
            let office = async {
                self.take_over(tenure).await;
                match &self.label {
                    Some(label) => label.keep().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = self.leadership.ends(tenure) => {}
                () = office => {}
            }
            reached("extender: leader deposed");
            warn!("this replica does not lead any more");
            self.ended.send_modify(|ended| *ended += 1);
            if let Some(label) = &self.label {
                label.drop_soon().await;
            }
        }
    }

    /// What others have bound is not all seen yet. A Binding of an earlier tenure may still be carried out, so that what was reserved for it
    /// stays, until the list or the pod says what became of it.
    async fn take_over(&self, tenure: u64) {
        self.cluster.relist.pods_are_listed().await;
        self.leadership.place_from_now(tenure);
        info!("the pods are listed; pods are placed from now on");
    }
}
