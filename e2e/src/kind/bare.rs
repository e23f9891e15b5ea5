//! A cluster of a control plane alone with nothing of the suite installed: what the benches run on.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use anyhow::Context as _;
use kube::Client;

use super::access::Access;
use super::guard::{self, Guard};
pub(crate) use super::kubeadm::SCHEDULER_FOLDER as FOLDER_IN_NODE;
use super::{KindCluster, Options, gateway, nodes_of, program};

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
        let control_plane = control_planes.into_iter().next().context("a cluster without control plane")?;
        let access = Access { kubeconfig: guard.kubeconfig() };
        go_straight(&access, name, &control_plane).await.context("the way to the API server")?;
        Ok(Self {
            client: access.client().await?,
            kubeconfig: guard.kubeconfig(),
            control_plane,
            host: gateway().await?,
            folder: guard.scheduler_folder(),
            _guard: guard,
        })
    }
}

/// Has the kubeconfig name the API server's own address, as pods reach it. kind publishes a port of this host instead,
/// and each byte would go through a program of Docker that has its share of the processors.
async fn go_straight(access: &Access, name: &str, control_plane: &str) -> anyhow::Result<()> {
    let format = "{{.NetworkSettings.Networks.kind.IPAddress}}";
    let address = program::output("docker", &["inspect", "--format", format, control_plane]).await?;
    let address: Ipv4Addr = address
        .trim()
        .parse()
        .with_context(|| format!("node {control_plane} has no IPv4 address in Docker's network `kind`"))?;
    let server = format!("--server=https://{address}:6443");
    access.kubectl(&["config", "set-cluster", &format!("kind-{name}"), &server], "").await?;
    Ok(())
}

/// What of the cluster of that name is still there; empty once nothing stayed behind.
pub(crate) async fn left_behind(name: &str) -> anyhow::Result<Vec<String>> {
    guard::left_behind(name).await
}
