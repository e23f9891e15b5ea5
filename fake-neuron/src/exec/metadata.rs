//! The program's metadata service: in a network of its own, or on the shared one, where the supervisor leads connections to it.
//! Called by [`crate::exec`].

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};

use super::{ExecError, METADATA_ADDRESS, network};
use crate::Machine;
use crate::imds::{Imds, Instance, Zone, listen};
use crate::ioctl::Supervisor;

/// HTTP's port, at which the real service listens.
const PORT: u16 = 80;

/// EC2's default: the answers reach the instance itself and no container behind a bridge.
const HOP_LIMIT: u8 = 1;

/// How the program reaches its metadata service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataOptions {
    /// Whether it answers without a token too (IMDSv1).
    pub without_token: bool,
    /// The instance's availability zone; `None`: `us-east-1a`.
    pub zone: Option<Zone>,
    /// Where it listens.
    pub network: Network,
}

/// The program's network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// One of its own, with the loopback interface and the metadata service's address and nothing else.
    Own,
    /// The caller's. Connections of the program to the metadata service's address are led to a port of the loopback interface; a
    /// supervisor must answer the program's calls for that.
    Shared,
}

/// Serves the machine's metadata until this process ends. The supervisor, led to it where that is needed.
///
/// # Errors
/// The kernel refuses an address or a file of the machine.
pub(super) fn serve(
    options: &MetadataOptions,
    machine: &Machine,
    supervisor: Supervisor,
) -> Result<Supervisor, ExecError> {
    let wanted = match options.network {
        Network::Own => {
            network::set_up().map_err(ExecError::refused("set the network up"))?;
            SocketAddrV4::new(METADATA_ADDRESS, PORT)
        }
        Network::Shared => SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0),
    };
    let refused = || ExecError::refused("listen for the metadata service");
    let listener = listen(SocketAddr::V4(wanted), HOP_LIMIT).map_err(refused())?;
    let address = listener.local_addr().map_err(refused())?;
    let instance = Instance::of(machine.instance_type(), machine.instance_id());
    let zone = options.zone.clone().unwrap_or_default();
    // For neuron-monitor, which says the same.
    zone.write(machine.root())?;
    let instance = instance.in_zone(&zone);
    let imds = Imds::new(&instance, options.without_token);
    tokio::spawn(imds.serve(listener, std::future::pending()));
    Ok(match (options.network, address) {
        (Network::Shared, SocketAddr::V4(address)) => supervisor.with_metadata_service(address),
        _ => supervisor,
    })
}
