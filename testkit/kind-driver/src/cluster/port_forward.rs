//! A way from this host to a pod: `kubectl port-forward`.

use std::net::SocketAddr;
use std::process::Stdio;

use anyhow::Context as _;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, Command};

use super::Cluster;

/// A way from this host to a pod. It ends when dropped, or with the pod.
#[derive(Debug)]
pub struct PortForward {
    address: SocketAddr,
    _program: Child,
}

impl PortForward {
    /// Forwards a free port of this host to a port of a pod of the target, such as `service/web`.
    ///
    /// # Errors
    /// kubectl cannot be started, or finds no pod that runs.
    pub async fn start(cluster: &Cluster, namespace: &str, target: &str, port: u16) -> anyhow::Result<Self> {
        let mut program = Command::new("kubectl")
            .args(["--kubeconfig", cluster.kubeconfig(), "-n", namespace])
            .args(["port-forward", target, &format!(":{port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot start `kubectl port-forward`")?;
        let output = program.stdout.take().context("`kubectl port-forward` has no output")?;
        let mut lines = BufReader::new(output).lines();
        let line = lines.next_line().await?.context("`kubectl port-forward` ended at once")?;
        let address = address_in(&line).with_context(|| format!("`kubectl port-forward` said {line:?}"))?;
        // It says a line for each connection, and stops where nobody reads them.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Ok(Self { address, _program: program })
    }

    /// Where to call on this host.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

/// The host's end in kubectl's line `Forwarding from 127.0.0.1:40001 -> 12345`.
fn address_in(line: &str) -> Option<SocketAddr> {
    line.split_whitespace().nth(2)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::address_in;

    #[test]
    fn the_address_is_in_the_first_line() {
        let address = address_in("Forwarding from 127.0.0.1:40001 -> 12345");
        assert_eq!(address, Some("127.0.0.1:40001".parse().unwrap()));
        assert_eq!(address_in("error: no pod"), None);
    }
}
