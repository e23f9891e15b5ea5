//! How kubectl and clients reach a cluster's API server. Called by [`super::Cluster`].

use anyhow::Context as _;
use kube::Client;
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};

use crate::program;

/// One cluster's API server, with an administrator's rights: the current context of a kubeconfig file.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Path of the file.
    pub(super) kubeconfig: String,
}

impl Access {
    /// What kubectl is given to talk to this cluster.
    pub(super) fn arguments(&self) -> [&str; 2] {
        ["--kubeconfig", &self.kubeconfig]
    }

    /// A client of its own.
    pub(super) async fn client(&self) -> anyhow::Result<Client> {
        let file = Kubeconfig::read_from(&self.kubeconfig).context("the cluster's kubeconfig")?;
        let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// A client with the rights of who bears this token, and no others.
    pub(super) async fn client_with_token(&self, token: String) -> anyhow::Result<Client> {
        let file = Kubeconfig::read_from(&self.kubeconfig).context("the cluster's kubeconfig")?;
        let mut config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
        config.auth_info = AuthInfo { token: Some(token.into()), ..AuthInfo::default() };
        Ok(Client::try_from(config)?)
    }

    /// Runs kubectl on this cluster, with this text on its standard input.
    pub(super) async fn kubectl(&self, arguments: &[&str], input: &str) -> anyhow::Result<String> {
        let all: Vec<&str> = self.arguments().into_iter().chain(arguments.iter().copied()).collect();
        program::output_from("kubectl", &all, input).await
    }
}
