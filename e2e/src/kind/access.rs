//! How kubectl and clients reach a cluster's API server. Called by this folder only.

use anyhow::Context as _;
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::program;

/// One cluster's API server, with an administrator's rights.
#[derive(Clone, Debug)]
pub(super) enum Access {
    /// The current context of a kubeconfig file.
    File(String),
    /// A context of the kubeconfig that kubectl would use.
    Context(String),
}

impl Access {
    /// What kubectl is given to talk to this cluster.
    pub(super) fn arguments(&self) -> [&str; 2] {
        match self {
            Access::File(path) => ["--kubeconfig", path],
            Access::Context(name) => ["--context", name],
        }
    }

    /// A client of its own.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let (file, context) = match self {
            Access::File(path) => (Kubeconfig::read_from(path).context("the cluster's kubeconfig")?, None),
            Access::Context(name) => (Kubeconfig::read().context("reading the kubeconfig")?, Some(name)),
        };
        let options = KubeConfigOptions { context: context.cloned(), ..KubeConfigOptions::default() };
        Ok(Client::try_from(kube::Config::from_custom_kubeconfig(file, &options).await?)?)
    }

    /// Runs kubectl on this cluster, with this text on its standard input.
    pub(super) async fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let all: Vec<&str> = self.arguments().into_iter().chain(arguments.iter().copied()).collect();
        program::output_from("kubectl", &all, input).await
    }
}
