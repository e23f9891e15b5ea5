//! The plugin as a program. See README.md.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use toy_device_plugin::{Config, run};

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
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let Args { socket_dir, resource, unhealthy_dir } = Args::parse();
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
    run(Config { socket_dir, resource, unhealthy_dir, poll: Duration::from_secs(1) }, shutdown).await
}
