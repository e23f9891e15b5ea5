//! Preparing a node heals what is kubelet's: a kubelet that keeps to what no plugin says is restarted. What that does not
//! heal replaces the whole cluster (`session`).

use std::time::Duration;

use kind_driver::WAIT;
use testkit_support::Wait;

use super::KindCluster;
use crate::report::print;

/// How long kubelet may take before it is restarted. It shows what a plugin says, and its end, within two seconds.
const BEFORE_RESTART: Wait = Wait { timeout: Duration::from_secs(40), ..WAIT };

impl KindCluster {
    /// Waits until kubelet, whose plugin has ended, advertises nothing. A kubelet that could not tell the API server when it
    /// dropped a resource advertises its devices again for good, until it is restarted (seen on kind, 1.34.4).
    pub(super) async fn withdraw(&self, node: &str) -> anyhow::Result<()> {
        let Err(why) = self.advertises_nothing_within(BEFORE_RESTART, node).await else { return Ok(()) };
        self.restart_kubelet_because(node, &why).await?;
        self.advertises_nothing(node).await
    }

    /// Lets the plugin run on the node and waits until kubelet advertises what it reports. From 1.37 on a kubelet that holds
    /// the path of an earlier plugin's socket refuses the next one until it is restarted.
    pub(super) async fn advertise(&self, node: &str) -> anyhow::Result<()> {
        self.let_plugin_run(node).await?;
        let Err(why) = self.serves_within(BEFORE_RESTART, node, None).await else { return Ok(()) };
        let began = self.restart_kubelet_because(node, &why).await?;
        self.serves(node, Some(began)).await
    }

    async fn restart_kubelet_because(
        &self,
        node: &str,
        why: &anyhow::Error,
    ) -> anyhow::Result<jiff::Timestamp> {
        print::progress(format_args!("{}: restarting kubelet of {node}: {why:#}", self.name()));
        self.driver.restart_kubelet(node).await
    }
}
