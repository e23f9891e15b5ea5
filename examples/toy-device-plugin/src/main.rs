//! The plugin as a program, and the container that shows what it got. See README.md.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
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

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Args { socket_dir, resource, unhealthy_dir, command } = Args::parse();
    let shutdown = on_signal()?;
    match command {
        None => {
            run(Config { socket_dir, resource, unhealthy_dir, poll: Duration::from_secs(1) }, shutdown)
                .await?;
        }
        Some(Command::Show { seconds }) => {
            println!("{}", std::env::var(IDS_VARIABLE).unwrap_or_default());
            let time = seconds.map_or(Duration::MAX, Duration::from_secs);
            shutdown.run_until_cancelled(tokio::time::sleep(time)).await;
        }
    }
    Ok(())
}

/// Cancelled by SIGTERM and SIGINT.
fn on_signal() -> std::io::Result<CancellationToken> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let shutdown = CancellationToken::new();
    let cancel = shutdown.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancel.cancel();
    });
    Ok(shutdown)
}
