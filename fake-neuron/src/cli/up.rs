//! `fake-neuron up`: the command line around [`Machine::builder`] and [`Fixture::up`]. Called by `cli`.

use std::path::PathBuf;

use clap::Args;
use fake_neuron::record::Fixture;
use fake_neuron::{Builder, Machine, MachineSpec};

use super::{CatalogFile, Root};

#[derive(Args)]
pub(crate) struct Arguments {
    /// EC2 instance type or alias, such as trn2.48xlarge.
    #[arg(long, value_name = "TYPE", required_unless_present = "from")]
    instance_type: Option<String>,
    /// Physical cores in one logical core, 2 only on Trn2 and Trn3 [default: no setting, so the type's own].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    lnc: Option<u8>,
    /// EC2 instance id that DMI shows [default: made from the type's name].
    #[arg(long, value_name = "ID")]
    instance_id: Option<String>,
    /// The driver's line, by whose layout the tree is made: 2.21, 2.24, 2.28, 2.29, 2.30 or 2.31-unknown; or the
    /// version that one of these shows, such as 2.30.2.0 [default: the newest that serves the type and whose layout is known].
    #[arg(long, value_name = "LINE")]
    driver: Option<String>,
    /// A host's tree that `fake-neuron record` has captured, in place of a type's.
    #[arg(long, value_name = "FIXTURE", conflicts_with_all = ["instance_type", "lnc", "instance_id", "driver", "catalog"])]
    from: Option<PathBuf>,
    #[command(flatten)]
    catalog: CatalogFile,
    #[command(flatten)]
    root: Root,
}

/// Makes the machine, with its whole tree.
///
/// # Errors
/// A catalog or fixture that cannot be used, and those of [`Machine::up`].
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<Machine> {
    let root = &arguments.root.root;
    if let Some(from) = &arguments.from {
        return Ok(Fixture::read(from)?.up(root)?);
    }
    let spec = MachineSpec {
        // clap asks for it where there is no fixture.
        instance_type: arguments.instance_type.unwrap_or_default(),
        lnc: arguments.lnc,
        instance_id: arguments.instance_id,
        driver: arguments.driver,
    };
    let catalog = arguments.catalog.read()?;
    Ok(Builder::of(spec).catalog(&catalog).counters(true).up(root)?)
}
