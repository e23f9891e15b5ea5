//! The plugin as a program, and the container that shows what it got. See README.md.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use runtime::System;
use toy_device_plugin::{Config, IDS_VARIABLE, run};

/// Advertises two pairs of linked devices that do not exist.
#[derive(Parser)]
struct Args {
    /// The kubelet's folder of plugin sockets.
    #[arg(long, default_value = "/var/lib/kubelet/device-plugins")]
    socket_dir: PathBuf,
    /// The extended resource that counts the devices.
    #[arg(long, default_value = "example.com/pair")]
    resource: String,
    /// A device is unhealthy while this folder has a file with its id as name.
    #[arg(long)]
    unhealthy_dir: Option<PathBuf>,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Instead of the plugin, a container with devices: prints their ids and runs until it is stopped.
    Show {
        /// Ends after so many seconds.
        #[arg(long = "for")]
        seconds: Option<u64>,
    },
}

fn main() -> ExitCode {
    runtime::log(runtime::LogFormat::Text);
    runtime::run_program("toy device plugin", program(Args::parse()))
}

async fn program(args: Args) -> anyhow::Result<()> {
    let Args { socket_dir, resource, unhealthy_dir, command } = args;
    let shutdown = runtime::until_signal()?;
    match command {
        None => {
            let config = Config { socket_dir, resource, unhealthy_dir, poll: Duration::from_secs(1) };
            run(System::real(), config, shutdown).await?;
        }
        Some(Command::Show { seconds }) => {
            println!("{}", std::env::var(IDS_VARIABLE).unwrap_or_default());
            let time = seconds.map_or(Duration::MAX, Duration::from_secs);
            shutdown.run_until_cancelled(tokio::time::sleep(time)).await;
        }
    }
    Ok(())
}
