//! Clients for any cluster, by a kubeconfig. Used by the commands that look at clusters which stand.

use std::path::Path;
use std::time::Duration;

use anyhow::anyhow;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};

/// How long a connection may take: whoever asks is sitting there.
const CONNECT: Duration = Duration::from_secs(5);

/// A client by a kubeconfig file, or by the kubeconfig that kubectl would use if none is given; in its current context or
/// the one given.
///
/// # Errors
/// There is no such file or context, or it names no server that can be called.
pub async fn client(kubeconfig: Option<&Path>, context: Option<&str>) -> anyhow::Result<Client> {
    let file = match kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let file = file.map_err(unusable)?;
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = Config::from_custom_kubeconfig(file, &options).await.map_err(unusable)?;
    config.connect_timeout = Some(CONNECT);
    Ok(Client::try_from(config)?)
}

/// The error without its sources, which its own text repeats.
fn unusable(error: KubeconfigError) -> anyhow::Error {
    anyhow!("no use can be made of the kubeconfig: {error}; name another with --kubeconfig or KUBECONFIG")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_said_once() {
        let path = Path::new("/nowhere/kubeconfig");
        let Err(error) = client(Some(path), None).await else { panic!("there is a client") };
        let text = format!("{error:#}");
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
        assert_eq!(text.matches("/nowhere/kubeconfig").count(), 1, "{text}");
    }
}
