//! A device plugin of a vendor that does not exist, to try the testkit on: it advertises two pairs of linked devices.
//!
//! ```sh
//! cd examples/toy-device-plugin && cargo test --test kubelet
//! ```

mod pairs;
mod service;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePluginServer;
use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::*;
use kubelet_api::unix;
use runtime::system::Address;
use runtime::{Protocol, Server, System};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

pub use pairs::IDS;
pub use service::IDS_VARIABLE;
use service::PairService;

/// With what the names of the plugin's sockets begin, in the kubelet's folder.
const SOCKETS: &str = "example-pair-";
/// How long calls of the kubelet that are open at the end may take.
const GRACE: Duration = Duration::from_secs(1);

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
pub async fn run(system: System, config: Config, shutdown: CancellationToken) -> anyhow::Result<()> {
    while !shutdown.is_cancelled() {
        let served = shutdown.run_until_cancelled(serve(&system, &config)).await;
        if let Some(Err(error)) = served {
            tracing::warn!(resource = config.resource, reason = format!("{error:#}"), "not registered");
        }
        shutdown.run_until_cancelled(sleep(config.poll)).await;
    }
    Ok(())
}

/// One registration: ends when the kubelet has removed the socket, as it does when it starts, or does not listen to the list
/// any more.
async fn serve(system: &System, config: &Config) -> anyhow::Result<()> {
    // A new name each time: a kubelet that has not noticed the end of the last server refuses another one on its path.
    // kubelet removes what was left when it starts.
    let name = format!("{SOCKETS}{:016x}.sock", system.random());
    let socket = config.socket_dir.join(&name);
    let address = Address::Unix(socket.clone());
    let listener = system.listen(&address).with_context(|| format!("cannot listen on {address}"))?;
    // Dropped with this function: the streams of the kubelet end, and then the server.
    let devices = watch::Sender::new(listed(system, config).await);
    let stopped = CancellationToken::new();
    let _stop = stopped.clone().drop_guard();
    let ended = CancellationToken::new();
    let service = PairService { devices: devices.subscribe(), ended: ended.clone() };
    let service = DevicePluginServer::new(service);
    let routes = Routes::new(service).prepare().into_axum_router();
    let server = Server::new(system.clone(), Protocol::Http2, routes, GRACE);
    system.spawn(server.run(listener, stopped.clone()));

    register(system, config, name).await?;
    tracing::info!(resource = config.resource, devices = IDS.len(), "registered");
    while system.status(&socket).await.is_ok() {
        if ended.run_until_cancelled(sleep(config.poll)).await.is_none() {
            tracing::info!(resource = config.resource, "the kubelet has ended its stream");
            return Ok(());
        }
        let now = listed(system, config).await;
        devices.send_if_modified(|last| std::mem::replace(last, now.clone()) != now);
    }
    Ok(())
}

async fn register(system: &System, config: &Config, endpoint: String) -> anyhow::Result<()> {
    let kubelet = config.socket_dir.join(KUBELET_SOCKET);
    let kubelet = unix::connect_by(&kubelet, system.dialler(), system.executor()).await?;
    let request = RegisterRequest {
        version: VERSION.to_owned(),
        endpoint,
        resource_name: config.resource.clone(),
        options: None,
    };
    let registered = RegistrationClient::new(kubelet).register(request).await;
    registered.map(drop).with_context(|| format!("kubelet refused {}", config.resource))
}

/// Every device with its health.
async fn listed(system: &System, config: &Config) -> Vec<Device> {
    let mut devices = Vec::new();
    for id in IDS {
        let health = match &config.unhealthy_dir {
            Some(folder) if system.status(&folder.join(id)).await.is_ok() => UNHEALTHY,
            _ => HEALTHY,
        };
        devices.push(Device { id: id.to_owned(), health: health.to_owned(), topology: None });
    }
    devices
}
