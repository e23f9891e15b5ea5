//! `fake-neuron exec`: the command line around [`fake_neuron::exec`]. Called by `cli`.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use fake_neuron::MachineSpec;
use fake_neuron::exec::{Exec, Hardware, MetadataOptions, Network, exec};
use fake_neuron::fault::read_faults;
use fake_neuron::load::Profile;
use fake_neuron::record::Fixture;

use super::CatalogFile;

/// What env(1), timeout(1) and the like return for a failure of their own.
pub(crate) const OWN_FAILURE: u8 = 125;

#[derive(Args)]
pub(crate) struct Arguments {
    /// EC2 instance type or alias, such as trn2.48xlarge.
    #[arg(long, value_name = "TYPE", required_unless_present = "from")]
    instance_type: Option<String>,
    /// A host's tree that `fake-neuron record` has captured, in place of a type's.
    #[arg(long, value_name = "FIXTURE", conflicts_with_all = ["instance_type", "lnc", "instance_id", "driver", "catalog"])]
    from: Option<PathBuf>,
    /// Physical cores in one logical core, 2 only on Trn2 and Trn3 [default: no setting, so the type's own].
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    lnc: Option<u8>,
    /// The driver's line, such as 2.24, or its version, such as 2.24.7.0 [default: the newest that serves the type and whose layout is known].
    #[arg(long, value_name = "LINE")]
    driver: Option<String>,
    /// EC2 instance id that DMI and the metadata show [default: made from the type's name].
    #[arg(long, value_name = "ID")]
    instance_id: Option<String>,
    /// Serve the instance's metadata at 169.254.169.254, in a network of its own: the program has no other.
    #[arg(long)]
    imds: bool,
    /// Availability zone that the metadata shows; the region is in its name [default: us-east-1a].
    #[arg(long, value_name = "ZONE", requires = "imds")]
    availability_zone: Option<String>,
    /// Let the metadata be read without a token (IMDSv1) too.
    #[arg(long, requires = "imds")]
    imds_v1: bool,
    /// Keep this host's network: the program's connections to 169.254.169.254 are answered, all others go where they go.
    #[arg(long, requires = "imds", conflicts_with = "no_ioctl")]
    imds_keep_network: bool,
    /// Faults to carry out while the program runs, in time from its start; a JSON file as `fake-neuron fault apply` reads it.
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Let the counters move as a workload's: idle, training, leak or spikes.
    #[arg(long, value_name = "PROFILE")]
    load: Option<Profile>,
    /// Count which of the machine's files are opened, and write them here as JSON once the program has ended.
    #[arg(long, value_name = "FILE", conflicts_with = "no_ioctl")]
    reads: Option<PathBuf>,
    /// Do not answer opens and ioctls of /dev/neuronN, for kernels that cannot.
    #[arg(long)]
    no_ioctl: bool,
    /// Do not put the folder of neuron-ls and neuron-monitor on PATH, as on hosts where nobody has.
    #[arg(long)]
    no_path: bool,
    /// An empty folder at which the program finds the machine's root; nothing in it is seen outside [default: /opt/fake-neuron].
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    #[command(flatten)]
    catalog: CatalogFile,
    /// The program and its arguments; a program whose name begins with `-` needs `--` before it.
    #[arg(required = true, trailing_var_arg = true, value_name = "CMD")]
    program: Vec<OsString>,
}

/// Runs the program; its exit code, or 125 where fake-neuron itself failed.
pub(crate) fn run(arguments: Arguments) -> ExitCode {
    match execute(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "fake-neuron: {error:#}");
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn execute(arguments: Arguments) -> anyhow::Result<u8> {
    let catalog = arguments.catalog.read()?;
    let faults = arguments.faults.as_deref().map(read_faults).transpose()?;
    let zone = arguments.availability_zone.map(|zone| zone.parse()).transpose()?;
    let network = if arguments.imds_keep_network { Network::Shared } else { Network::Own };
    let mut words = arguments.program.into_iter();
    let hardware = match &arguments.from {
        Some(fixture) => Hardware::Fixture(Fixture::read(fixture)?),
        None => Hardware::Type(MachineSpec {
            // Clap asks for it where there is no fixture.
            instance_type: arguments.instance_type.unwrap_or_default(),
            lnc: arguments.lnc,
            instance_id: arguments.instance_id,
            driver: arguments.driver,
        }),
    };
    let reads = arguments.reads.as_deref().map(|file| {
        File::create(file).with_context(|| format!("{} cannot be written", file.display())).map(Arc::new)
    });
    let options = Exec {
        hardware,
        root: arguments.root,
        // Clap insists on one.
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        tools_on_path: !arguments.no_path,
        ioctls: !arguments.no_ioctl,
        faults: faults.unwrap_or_default(),
        load: arguments.load,
        reads: reads.transpose()?,
        metadata: arguments.imds.then_some(MetadataOptions {
            without_token: arguments.imds_v1,
            zone,
            network,
        }),
    };
    Ok(exec(&options, &catalog)?)
}
