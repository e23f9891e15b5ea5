//! A device plugin of a vendor that does not exist, to try the testkit on: it advertises two pairs of linked devices.
//!
//! ```sh
//! cd examples/toy-device-plugin && cargo test --test kubelet
//! ```

mod pairs;
mod service;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePluginServer;
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::*;
use kubelet_api::unix;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

pub use pairs::IDS;
pub use service::IDS_VARIABLE;
use service::PairService;

/// The plugin's socket, in the kubelet's folder.
const SOCKET: &str = "example-pair.sock";

/// The plugin's settings.
#[derive(Clone, Debug)]
pub struct Config {
    /// The kubelet's folder of plugin sockets, `/var/lib/kubelet/device-plugins` on most nodes.
    pub socket_dir: PathBuf,
    /// The extended resource that counts the devices.
    pub resource: String,
    /// A device is unhealthy while this folder has a file with its id as name.
    pub unhealthy_dir: Option<PathBuf>,
    /// How often health and socket are looked at.
    pub poll: Duration,
}

/// Serves the kubelet, and registers again whenever the kubelet has restarted, until `shutdown`.
pub async fn run(config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    while !shutdown.is_cancelled() {
        let served = shutdown.run_until_cancelled(serve(&config)).await;
        if let Some(Err(error)) = served {
            tracing::warn!(resource = config.resource, reason = format!("{error:#}"), "not registered");
        }
        shutdown.run_until_cancelled(tokio::time::sleep(config.poll)).await;
    }
    Ok(())
}

/// One registration: ends when the kubelet has removed the socket, as it does when it starts.
async fn serve(config: &Config) -> anyhow::Result<()> {
    let socket = config.socket_dir.join(SOCKET);
    // A plugin that was killed has left its socket.
    let _ = std::fs::remove_file(&socket);
    let listener = unix::listen(&socket)?;
    // Dropped with this function: the streams of the kubelet end, and then the server.
    let devices = watch::Sender::new(listed(config));
    let stopped = CancellationToken::new();
    let _stop = stopped.clone().drop_guard();
    let service = DevicePluginServer::new(PairService { devices: devices.subscribe() });
    let server = Server::builder().add_service(service);
    tokio::spawn(server.serve_with_incoming_shutdown(unix::incoming(listener), stopped.cancelled_owned()));

    register(&config.socket_dir, &config.resource).await?;
    tracing::info!(resource = config.resource, devices = IDS.len(), "registered");
    while socket.exists() {
        tokio::time::sleep(config.poll).await;
        let now = listed(config);
        devices.send_if_modified(|last| std::mem::replace(last, now.clone()) != now);
    }
    Ok(())
}

async fn register(socket_dir: &Path, resource: &str) -> anyhow::Result<()> {
    let kubelet = unix::connect(&socket_dir.join(KUBELET_SOCKET)).await?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint: SOCKET.to_owned(),
        resource_name: resource.to_owned(),
        options: None,
    };
    let registered = RegistrationClient::new(kubelet).register(request).await;
    registered.map(drop).with_context(|| format!("kubelet refused {resource}"))
}

/// Every device with its health.
fn listed(config: &Config) -> Vec<Device> {
    let is_unhealthy = |id: &str| config.unhealthy_dir.as_ref().is_some_and(|dir| dir.join(id).exists());
    let device = |id: &str| Device {
        id: id.to_owned(),
        health: if is_unhealthy(id) { UNHEALTHY } else { HEALTHY }.to_owned(),
        topology: None,
    };
    IDS.map(device).to_vec()
}
