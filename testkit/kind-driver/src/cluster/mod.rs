//! A cluster that stands: its nodes, its API server, and everything a test does to them. The methods lie in a file for
//! each part of a cluster.

mod access;
mod containers;
mod control_plane;
mod create;
mod daemon_set_switch;
pub mod evidence;
mod kube_proxy;
mod kubelet;
pub mod node;
mod port_forward;
mod power;
mod workloads;

use std::fmt;
use std::path::PathBuf;

use anyhow::Context as _;
use futures::future::try_join_all;
use kube::Client;
use testkit_support::Release;

use access::Access;
pub use control_plane::ControlPlanePart;
pub use daemon_set_switch::DaemonSetSwitch;
pub use port_forward::PortForward;

use crate::guard::{self, Guard};
use crate::{Options, Owner, network, program};

/// A running cluster. Dropped, it is deleted, unless it is to be kept.
pub struct Cluster {
    owner: Owner,
    name: String,
    client: Client,
    access: Access,
    control_plane: String,
    /// The workers, then the control plane.
    nodes: Vec<String>,
    used_again: bool,
    // Last: deletes the cluster when everything above is gone.
    guard: Guard,
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, name, nodes, used_again, .. } = self;
        f.debug_struct("Cluster")
            .field("owner", owner)
            .field("name", name)
            .field("nodes", nodes)
            .field("used_again", used_again)
            .finish_non_exhaustive()
    }
}

impl Cluster {
    /// Makes the cluster, or uses one again that an earlier run has kept. Clusters of one process are made one after the
    /// other.
    ///
    /// # Errors
    /// An earlier cluster cannot be deleted, or kind cannot make this one, several times in a row. Nothing stays then.
    pub async fn up(owner: Owner, options: &Options) -> anyhow::Result<Self> {
        let name = options.name.clone();
        let guard = Guard::new(owner, &name, options.keep)?;
        let (_, earlier) = create::nodes_of(&name).await?;
        let used_again = options.keep && guard.is_complete() && earlier.len() >= options.workers;
        if used_again {
            let kubeconfig = guard.kubeconfig();
            let export = ["export", "kubeconfig", "--name", &name, "--kubeconfig", &kubeconfig];
            program::output("kind", &export).await?;
        } else {
            guard.begin_anew().await.context("deleting what an earlier run left")?;
            create::create(owner, options, &guard).await?;
        }
        let access = Access { kubeconfig: guard.kubeconfig() };
        let (control_planes, workers) = create::nodes_of(&name).await?;
        let control_plane = control_planes.into_iter().next().context("a cluster without control plane")?;
        let nodes: Vec<String> = workers.into_iter().chain([control_plane.clone()]).collect();
        if used_again {
            // A run that was killed may have left one frozen.
            try_join_all(nodes.iter().map(|node| node::thaw(node))).await?;
        }
        let client = access.client().await?;
        Ok(Self { owner, name, client, access, control_plane, nodes, used_again, guard })
    }

    /// The program whose cluster it is.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Its name, as kind knows it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether an earlier run made it.
    pub fn is_used_again(&self) -> bool {
        self.used_again
    }

    /// A client with an administrator's rights.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// A client with the rights of who bears this token, such as a pod's service account, and no others.
    ///
    /// # Errors
    /// The cluster's kubeconfig cannot be read.
    pub async fn client_with_token(&self, token: String) -> anyhow::Result<Client> {
        self.access.client_with_token(token).await
    }

    /// The path of its kubeconfig.
    pub fn kubeconfig(&self) -> &str {
        &self.access.kubeconfig
    }

    /// The name of the control plane's node.
    pub fn control_plane(&self) -> &str {
        &self.control_plane
    }

    /// The names of its workers, sorted.
    pub fn workers(&self) -> &[String] {
        &self.nodes[..self.nodes.len().saturating_sub(1)]
    }

    /// The names of all nodes: the workers, then the control plane.
    pub fn nodes(&self) -> &[String] {
        &self.nodes
    }

    /// The host's folder that the control plane's node has as [`Owner::folder_in_node`], where the cluster was made with
    /// a scheduler's configuration. It goes with the cluster.
    pub fn scheduler_folder(&self) -> PathBuf {
        self.owner.scheduler_folder(&self.name)
    }

    /// The release of Kubernetes that the API server is of, such as `v1.34.4`, without what a distribution adds.
    ///
    /// # Errors
    /// The API server does not answer, or not with a release.
    pub async fn release(&self) -> anyhow::Result<String> {
        let version = self.client.apiserver_version().await.context("asking for the server's version")?;
        let release: Release = version.git_version.parse().context("the server's version")?;
        Ok(release.to_string())
    }

    /// Runs kubectl on this cluster, with this text on its standard input.
    ///
    /// # Errors
    /// kubectl is not there, or failed; then with what it printed.
    pub async fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        self.access.kubectl(arguments, input).await
    }

    /// Has the kubeconfig name the API server's own address, as pods reach it. kind publishes a port of this host instead,
    /// and each byte goes through a program of Docker that has its share of the processors.
    ///
    /// # Errors
    /// The control plane has no address, or kubectl failed.
    pub async fn dial_directly(&mut self) -> anyhow::Result<()> {
        let address = network::node_address(&self.control_plane).await?;
        let (server, entry) = (format!("--server=https://{address}:6443"), format!("kind-{}", self.name));
        self.access.kubectl(&["config", "set-cluster", &entry, &server], "").await?;
        self.client = self.access.client().await?;
        Ok(())
    }

    /// The volumes that Docker made for its nodes.
    ///
    /// # Errors
    /// Docker does not answer.
    pub async fn volumes(&self) -> anyhow::Result<Vec<String>> {
        let format = r#"{{range .Mounts}}{{if eq .Type "volume"}}{{.Name}} {{end}}{{end}}"#;
        let nodes = self.nodes.iter().map(String::as_str);
        let arguments: Vec<&str> = ["inspect", "--format", format].into_iter().chain(nodes).collect();
        let names = program::output("docker", &arguments).await?;
        Ok(names.split_whitespace().map(str::to_owned).collect())
    }

    /// Deletes the cluster, unless it is to be kept, without holding up other clusters' work.
    ///
    /// # Errors
    /// The thread that deletes it has broken.
    pub async fn down(self) -> anyhow::Result<()> {
        tokio::task::spawn_blocking(move || drop(self)).await.context("deleting the cluster")
    }

    /// Deletes the cluster, also where it was to be kept: it is broken. What is left of it here serves nobody.
    ///
    /// # Errors
    /// kind or Docker does not answer, or its folder cannot be removed.
    pub async fn discard(&mut self) -> anyhow::Result<()> {
        guard::delete(self.owner, &self.name).await?;
        self.guard.release();
        Ok(())
    }

    /// Leaves the cluster running, for whoever takes it down by name ([`Owner::take_down`]).
    pub fn release_to_user(mut self) {
        self.guard.release();
    }
}
