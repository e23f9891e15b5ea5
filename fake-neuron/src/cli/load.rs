//! `fake-neuron load`: the command line around [`fake_neuron::load::Load`]. Called by `cli`.

use std::io::{self, Write};

use clap::Args;
use fake_neuron::Machine;
use fake_neuron::fault::Stop;
use fake_neuron::load::{Load, Profile};

use super::fault::FaultRoot;
use super::until_signal;

#[derive(Args)]
pub(crate) struct Arguments {
    /// How the devices are used: idle, training, leak or spikes.
    profile: Profile,
    #[command(flatten)]
    root: FaultRoot,
}

/// Writes the counters each second until SIGTERM or Ctrl-C.
///
/// # Errors
/// No machine, one without counters, or the file system's refusal.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<String> {
    let machine = Machine::open(arguments.root.folder())?;
    anyhow::ensure!(
        machine.has_counters(),
        "the machine under {} was made without counters: make it with `fake-neuron up`",
        machine.root().display()
    );
    let _ = writeln!(
        io::stderr(),
        "fake-neuron: {} until Ctrl-C; the counters stay as they are then",
        arguments.profile
    );
    let stop = Stop::default();
    let ends = stop.clone();
    until_signal(move || Load::new(&machine, arguments.profile).run(&ends), move || stop.ask())?;
    Ok(String::new())
}
