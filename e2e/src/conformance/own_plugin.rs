//! Our device plugin as a command for the kit: this program, started again as a process that makes a fake machine and is the
//! production plugin on it. Called by the command line, hidden, and described for [`super::embedded`].

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use fake_neuron::{Health, Machine, MachineSpec};
use neuron_core::catalog::Catalog;
use neuron_core::names;
use neuron_device_plugin::System;
use plugin_conformance::{EmbeddedPlugin, WithEachDevice};

/// The types of a node with these numbers of devices.
const TYPES: [(u64, &str); 2] = [(1, "inf2.xlarge"), (6, "inf2.24xlarge")];
/// Devices on the node of most cases.
const DEVICES: u64 = 6;
/// NeuronCores of one device of these types.
const CORES: u64 = 2;
/// How long one of two plugins may take to take over: the older hangs up first.
const TAKES_OVER_WITHIN: Duration = Duration::from_secs(10);
/// The time between two looks of the plugin's. Changes that it is told of take none.
const POLL: Duration = Duration::from_secs(1);

/// What `neuron-e2e own-plugin` does.
#[derive(Clone, Debug, Args)]
pub struct OwnPlugin {
    #[command(subcommand)]
    does: Does,
    /// Folder of the fake machines.
    #[arg(long, global = true, default_value = ".")]
    folder: PathBuf,
    /// Devices of the machine.
    #[arg(long, global = true, default_value_t = DEVICES)]
    devices: u64,
}

#[derive(Clone, Debug, Subcommand)]
enum Does {
    /// Makes the machine, if it is not there, and is the plugin on it.
    Run {
        /// kubelet's folder.
        #[arg(long)]
        kubelet_dir: PathBuf,
        /// The node's name.
        #[arg(long)]
        node: String,
        /// The way to the API server.
        #[arg(long)]
        kubeconfig: PathBuf,
    },
    /// Makes a device unhealthy.
    Break {
        /// The device's number.
        device: u8,
    },
    /// Makes a device healthy again.
    Heal {
        /// The device's number.
        device: u8,
    },
}

/// Our plugin as the kit runs it: by commands, as everybody's.
pub(super) fn described() -> anyhow::Result<EmbeddedPlugin> {
    let program = std::env::current_exe().context("cannot tell where this program is")?;
    let program = quoted(&program)?;
    let common = format!("{program} own-plugin --folder {{folder}} --devices {{count}}");
    let run =
        format!("{common} run --kubelet-dir {{kubelet-dir}} --node {{node}} --kubeconfig {{kubeconfig}}");
    let cores = WithEachDevice {
        resource: names::NEURONCORE.to_owned(),
        noun: "NeuronCores".to_owned(),
        count: CORES,
    };
    Ok(EmbeddedPlugin {
        with_each_device: vec![cores],
        unhealthy_command: Some(format!("{common} break {{index}}")),
        healthy_command: Some(format!("{common} heal {{index}}")),
        takes_over_within: Some(TAKES_OVER_WITHIN),
        ..EmbeddedPlugin::new(run, names::NEURON, DEVICES)
    })
}

/// The path as one word for a shell.
fn quoted(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str().with_context(|| format!("{} is no UTF-8", path.display()))?;
    Ok(format!("'{}'", text.replace('\'', "'\\''")))
}

/// Does what it was told.
///
/// # Errors
/// The machine cannot be made or changed, or the plugin ends with an error.
pub(crate) async fn run(arguments: OwnPlugin) -> anyhow::Result<ExitCode> {
    let OwnPlugin { does, folder, devices } = arguments;
    let root = folder.join(format!("machine-{devices}"));
    match does {
        Does::Run { kubelet_dir, node, kubeconfig } => {
            runtime::log(runtime::LogFormat::Text);
            let Some((_, instance_type)) = TYPES.iter().find(|(count, _)| *count == devices) else {
                bail!("no machine of {devices} devices is known here: 1 or 6");
            };
            let spec = MachineSpec {
                instance_type: (*instance_type).to_owned(),
                lnc: None,
                instance_id: Some("i-0embedded".to_owned()),
                driver: None,
            };
            Machine::up(&spec, &root, Catalog::embedded()).context("making the fake machine")?;
            let config = neuron_device_plugin::Config {
                root,
                kubelet_dir,
                poll: POLL,
                ..neuron_device_plugin::Config::new(node)
            };
            let client = runtime::client(Some(&kubeconfig)).await?;
            let shutdown = runtime::until_signal()?;
            neuron_device_plugin::run(System::real(), config, client, shutdown).await?;
        }
        Does::Break { device } => Machine::open(&root)?.set_health(device, &Health::unhealthy("hbm"))?,
        Does::Heal { device } => Machine::open(&root)?.set_health(device, &Health::Healthy)?,
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_whatever_is_in_it() {
        assert_eq!(quoted(Path::new("/a b/it's")).unwrap(), "'/a b/it'\\''s'");
    }
}
