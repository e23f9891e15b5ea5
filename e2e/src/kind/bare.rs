//! A cluster of a control plane alone with nothing of the suite installed: what the benches run on.

use std::path::PathBuf;

use anyhow::Context as _;
use kube::Client;

use super::access::Access;
pub(crate) use super::config::SCHEDULER_FOLDER as FOLDER_IN_NODE;
use super::guard::{self, Guard};
use super::{KindCluster, Options, gateway, nodes_of};

/// A running cluster; it is deleted when dropped.
pub(crate) struct Bare {
    /// Its API server.
    pub(crate) client: Client,
    /// Path of its kubeconfig.
    pub(crate) kubeconfig: String,
    /// Name of its only node.
    pub(crate) control_plane: String,
    /// The host's address as its node sees it.
    pub(crate) host: String,
    /// The host's folder that its node has as [`FOLDER_IN_NODE`]; it goes with the cluster.
    pub(crate) folder: PathBuf,
    // Last: deletes the cluster when everything above is gone.
    _guard: Guard,
}

impl Bare {
    /// Makes the cluster, in place of an earlier one of that name.
    pub(crate) async fn up(name: &str, node_image: Option<String>) -> anyhow::Result<Self> {
        let guard = Guard::new(name, false)?;
        guard.begin_anew().await.context("deleting what an earlier run left")?;
        let options = Options {
            name: name.to_owned(),
            workers: 0,
            keep: false,
            node_image,
            skip_images: true,
            feature_gates: &[],
        };
        KindCluster::create(&options, &guard).await?;
        let (control_planes, _) = nodes_of(name).await?;
        Ok(Self {
            client: Access::File(guard.kubeconfig()).client().await?,
            kubeconfig: guard.kubeconfig(),
            control_plane: control_planes.into_iter().next().context("a cluster without control plane")?,
            host: gateway().await?,
            folder: guard.scheduler_folder(),
            _guard: guard,
        })
    }
}

/// What of the cluster of that name is still there; empty once nothing stayed behind.
pub(crate) async fn left_behind(name: &str) -> anyhow::Result<Vec<String>> {
    guard::left_behind(name).await
}
