//! One registered plugin: dialling it back and following its list. Called by `registration`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::Empty;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::transport::Channel;

use super::plugins::AlreadyConnected;
use super::rpc_error::rpc_error;
use crate::kubelet::plugin_call::PluginCall;
use crate::kubelet::shared::{Shared, locked};

/// How long kubelet dials a plugin back while Register is open.
const DIAL_TIMEOUT: Duration = Duration::from_secs(10);

/// Dials the plugin on `socket`, asks for its options, makes it the resource's plugin and follows its list.
pub(crate) async fn connect(shared: &Arc<Shared>, resource: &str, socket: &Path) -> Result<(), Status> {
    let connected = try_connect(shared, resource, socket).await;
    // Before its first list can come.
    shared.runtime.plugin_called(&PluginCall::Registered {
        resource: resource.to_owned(),
        endpoint: name_of(socket),
        answer: connected.as_ref().map(|_| ()).map_err(|error| error.message().to_owned()),
    });
    let (client, dropped) = connected.inspect_err(|_| {
        locked(&shared.devices).plugins.not_connected(resource, socket);
    })?;
    shared.spawn(follow(Arc::clone(shared), resource.to_owned(), socket.to_owned(), client, dropped));
    Ok(())
}

async fn try_connect(
    shared: &Shared,
    resource: &str,
    socket: &Path,
) -> Result<(DevicePluginClient<Channel>, CancellationToken), Status> {
    let (dial, executor) = (shared.system.dialler(), shared.system.executor());
    let dial = kubelet_api::unix::connect_by(socket, dial, executor);
    let dialled = tokio::time::timeout(DIAL_TIMEOUT, dial).await;
    let channel = match dialled {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) => return Err(Status::unknown(format!("failed to dial device plugin: {error}"))),
        Err(_) => return Err(Status::unknown("failed to dial device plugin: context deadline exceeded")),
    };
    let mut client = DevicePluginClient::new(channel);
    let options = client.get_device_plugin_options(Empty {}).await.map_err(|error| {
        Status::unknown(format!("failed to get device plugin options: {}", rpc_error(&error, socket)))
    })?;
    let has_preference = options.into_inner().get_preferred_allocation_available;
    let connected =
        locked(&shared.devices).plugins.connected(resource, client.clone(), socket, has_preference);
    let dropped = connected.map_err(|AlreadyConnected| {
        Status::unknown(format!("device plugin already connected: {}", socket.display()))
    })?;
    Ok((client, dropped))
}

/// The name of a plugin's socket.
fn name_of(socket: &Path) -> String {
    socket.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Counts one held list while it lives.
struct HeldList<'a>(&'a AtomicUsize);

impl<'a> HeldList<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for HeldList<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes over every list until the stream ends or this plugin is dropped, even if a newer one serves the resource by then.
async fn follow(
    shared: Arc<Shared>,
    resource: String,
    socket: PathBuf,
    mut client: DevicePluginClient<Channel>,
    dropped: CancellationToken,
) {
    let lists = async {
        let held_list = HeldList::begin(&shared.held_lists);
        // The only error is a dropped sender, and `shared` holds the sender.
        let _open = shared.hold_lists.subscribe().wait_for(|held| !held).await.is_ok();
        drop(held_list);
        let mut lists = client.list_and_watch(Empty {}).await?.into_inner();
        while let Some(list) = lists.message().await? {
            shared.runtime.plugin_called(&PluginCall::Listed {
                resource: resource.clone(),
                endpoint: name_of(&socket),
                devices: list.devices.iter().map(|one| (one.id.clone(), one.health.clone())).collect(),
            });
            locked(&shared.devices).list(&resource, list.devices);
            // A list counts although it is not written down.
            let _ = shared.save_checkpoint().await;
            shared.devices_changed.notify_one();
        }
        Ok::<(), Status>(())
    };
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => return,
        () = dropped.cancelled() => {}
        ended = lists => tracing::info!(resource, ?ended, "ListAndWatch ended"),
    }
    locked(&shared.devices).plugins.disconnected(&resource, &socket, shared.clock.now());
    shared.devices_changed.notify_one();
}
