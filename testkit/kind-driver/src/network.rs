//! Docker's network `kind`, in which the nodes are.

use std::net::Ipv4Addr;

use anyhow::Context as _;

use crate::program;

/// The host's address as nodes see it.
///
/// # Errors
/// Docker does not answer, or has no such network: it comes with the first cluster.
pub async fn host_address() -> anyhow::Result<String> {
    let format = "{{range .IPAM.Config}}{{.Gateway}} {{end}}";
    let gateways = program::output("docker", &["network", "inspect", "kind", "--format", format]).await?;
    let address = gateways.split_whitespace().find(|text| text.parse::<Ipv4Addr>().is_ok());
    address.map(str::to_owned).context("Docker's network `kind` has no IPv4 gateway")
}

/// The address of a node as other nodes, pods and the host see it.
///
/// # Errors
/// There is no such node, or it has no IPv4 address.
pub async fn node_address(node: &str) -> anyhow::Result<Ipv4Addr> {
    let format = "{{.NetworkSettings.Networks.kind.IPAddress}}";
    let address = program::output("docker", &["inspect", "--format", format, node]).await?;
    let address = address.trim().parse();
    address.with_context(|| format!("node {node} has no IPv4 address in Docker's network `kind`"))
}
