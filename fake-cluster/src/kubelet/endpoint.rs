//! One registered plugin: dialling it back, following its list, and its errors in Go's words. Used by
//! `registration` and `allocate`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::Empty;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use tonic::transport::Channel;
use tonic::{Code, Status};

use super::shared::{Shared, locked};

/// How long kubelet tries to dial a plugin back while Register is open.
const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Dials the plugin on `socket`, asks for its options, makes it the resource's plugin and follows its list.
pub(crate) async fn connect(shared: &Arc<Shared>, resource: &str, socket: &Path) -> Result<(), Status> {
    let dialled = tokio::time::timeout(DIAL_LIMIT, kubelet_api::unix::connect(socket)).await;
    let channel = match dialled {
        Ok(Ok(channel)) => channel,
        Ok(Err(error)) => return Err(Status::unknown(format!("failed to dial device plugin: {error}"))),
        Err(_) => return Err(Status::unknown("failed to dial device plugin: context deadline exceeded")),
    };
    let mut client = DevicePluginClient::new(channel);
    let options = client.get_device_plugin_options(Empty {}).await.map_err(|error| {
        Status::unknown(format!("failed to get device plugin options: {}", rpc_error(&error)))
    })?;
    let preference = options.into_inner().get_preferred_allocation_available;
    locked(&shared.books).connected(resource, client.clone(), preference);
    shared.tasks.spawn(follow(Arc::clone(shared), resource.to_owned(), client));
    Ok(())
}

/// Takes over every list until the stream ends, whoever serves the resource by then.
async fn follow(shared: Arc<Shared>, resource: String, mut client: DevicePluginClient<Channel>) {
    let lists = async {
        shared.lists_waiting.fetch_add(1, Ordering::SeqCst);
        // The only error is a sender that is gone, and `shared` holds it.
        let _open = shared.lists_held.subscribe().wait_for(|held| !held).await.is_ok();
        shared.lists_waiting.fetch_sub(1, Ordering::SeqCst);
        let mut lists = client.list_and_watch(Empty {}).await?.into_inner();
        while let Some(list) = lists.message().await? {
            locked(&shared.books).list(&resource, list.devices);
            shared.save_checkpoint();
            shared.changed.notify_one();
        }
        Ok::<(), Status>(())
    };
    tokio::select! {
        () = shared.stopping.cancelled() => return,
        ended = lists => tracing::info!(resource, ?ended, "ListAndWatch ended"),
    }
    locked(&shared.books).disconnected(&resource, shared.clock.now());
    shared.changed.notify_one();
}

/// A gRPC error as Go prints it, which is what users read in a pod's message.
pub(crate) fn rpc_error(status: &Status) -> String {
    let code = match status.code() {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {}", status.message())
}
