//! `fake-neuron imds`: an instance's metadata service alone, for tests of others. Called by `cli`.

use std::io::{self, Write};
use std::net::SocketAddr;

use anyhow::Context;
use clap::Args;
use fake_neuron::imds::{Imds, Instance, Zone, listen};
use fake_neuron::{Blueprint, MachineSpec};

use super::CatalogFile;

#[derive(Args)]
pub(crate) struct Arguments {
    /// EC2 instance type or alias, such as trn2.48xlarge.
    #[arg(long, value_name = "TYPE")]
    instance_type: String,
    /// EC2 instance id [default: made from the type's name].
    #[arg(long, value_name = "ID")]
    instance_id: Option<String>,
    /// Availability zone; the region is in its name.
    #[arg(long, value_name = "ZONE", default_value = "us-east-1a")]
    availability_zone: String,
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Answer without a token (IMDSv1) too.
    #[arg(long)]
    v1: bool,
    /// Routers that an answer may pass, and one: an IP packet's TTL.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=64))]
    hop_limit: u8,
    #[command(flatten)]
    catalog: CatalogFile,
}

/// Prints where it listens and runs until SIGTERM or Ctrl-C.
///
/// # Errors
/// An unknown type, an instance id or a zone that is none, an address that cannot be listened on.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { instance_type, instance_id, availability_zone, listen: address, v1, hop_limit, catalog } =
        arguments;
    let spec = MachineSpec { instance_type, lnc: None, instance_id, driver: None };
    let machine = Blueprint::of(&spec, &*catalog.read()?)?;
    let zone: Zone = availability_zone.parse()?;
    let instance = Instance::of(&spec.instance_type, machine.instance_id()).in_zone(&zone);
    let listener =
        listen(address, hop_limit).with_context(|| format!("cannot listen on {address} (--listen)"))?;
    let address = listener.local_addr().context("cannot tell the address")?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot start")?;
    runtime.block_on(async {
        let shutdown = runtime::until_signal()?;
        // From here on a signal ends it well.
        writeln!(io::stdout(), "http://{address}").context("cannot print")?;
        Imds::new(&instance, v1).serve(listener, shutdown.cancelled_owned()).await.context("cannot serve")
    })
}
