//! One registered plugin: dialling it back, following its list, and its errors in Go's words. Used by
//! `registration` and `allocate`.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::Empty;
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use tokio_util::sync::CancellationToken;
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
        Status::unknown(format!("failed to get device plugin options: {}", rpc_error(&error, socket)))
    })?;
    let preference = options.into_inner().get_preferred_allocation_available;
    let dropped = locked(&shared.books).connected(resource, client.clone(), socket, preference);
    shared.tasks.spawn(follow(Arc::clone(shared), resource.to_owned(), client, dropped));
    Ok(())
}

/// One more that waits while this lives.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Takes over every list until the stream ends or this plugin is dropped, whoever serves the resource by then.
async fn follow(
    shared: Arc<Shared>,
    resource: String,
    mut client: DevicePluginClient<Channel>,
    dropped: CancellationToken,
) {
    let lists = async {
        let waiting = Waiting::begin(&shared.lists_waiting);
        // The only error is a sender that is gone, and `shared` holds it.
        let _open = shared.lists_held.subscribe().wait_for(|held| !held).await.is_ok();
        drop(waiting);
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
        () = dropped.cancelled() => {}
        ended = lists => tracing::info!(resource, ?ended, "ListAndWatch ended"),
    }
    locked(&shared.books).disconnected(&resource, shared.clock.now());
    shared.changed.notify_one();
}

/// A gRPC error as Go prints it, which is what users read in a pod's message. A call that never reached the plugin on
/// `socket`, or whose connection broke, is told in grpc-go's words, not in this transport's.
pub(crate) fn rpc_error(status: &Status, socket: &Path) -> String {
    // Only an error of our own side has a source: what a plugin answers has none.
    let failed = std::iter::successors(std::error::Error::source(status), |error| error.source());
    let dialling = failed.clone().find_map(|error| error.downcast_ref::<io::Error>()).and_then(refusal);
    let (code, message) = match dialling {
        Some(why) => {
            let dial = format!("dial unix {}: connect: {why}", socket.display());
            (
                Code::Unavailable,
                format!("connection error: desc = \"transport: Error while dialing: {dial}\""),
            )
        }
        None if failed.count() > 0 => (Code::Unavailable, "error reading from server: EOF".to_owned()),
        None => (status.code(), status.message().to_owned()),
    };
    let code = match code {
        Code::Ok => "OK".to_owned(),
        Code::Cancelled => "Canceled".to_owned(),
        code => format!("{code:?}"),
    };
    format!("rpc error: code = {code} desc = {message}")
}

/// Why nobody could be dialled, in Go's words; `None` if somebody was.
fn refusal(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::NotFound => Some("no such file or directory"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a call says after the plugin, which had accepted the connection, did `meanwhile` with its socket.
    async fn after(meanwhile: impl FnOnce(tokio::net::UnixListener, &Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("widget.sock");
        let listener = kubelet_api::unix::listen(&socket).unwrap();
        let mut client = DevicePluginClient::new(kubelet_api::unix::connect(&socket).await.unwrap());
        drop(listener.accept().await.unwrap());
        meanwhile(listener, &socket);
        // The first call may still meet the connection that has just broken.
        let mut said = String::new();
        for _ in 0..2 {
            let error = client.get_device_plugin_options(Empty {}).await.unwrap_err();
            said = rpc_error(&error, &socket).replace(&*folder.path().to_string_lossy(), "FOLDER");
        }
        said
    }

    #[tokio::test]
    async fn a_plugin_that_is_gone_is_told_in_go_s_words() {
        assert_eq!(
            after(|listener, _| drop(listener)).await,
            "rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: \
             dial unix FOLDER/widget.sock: connect: connection refused\""
        );
        let removed = after(|listener, socket| {
            drop(listener);
            std::fs::remove_file(socket).unwrap();
        });
        assert!(removed.await.ends_with("connect: no such file or directory\""));
    }

    #[test]
    fn a_connection_that_breaks_under_a_call_is_told_in_go_s_words() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        let said = rpc_error(&Status::from_error(Box::new(broken)), Path::new("/widget.sock"));
        assert_eq!(said, "rpc error: code = Unavailable desc = error reading from server: EOF");
    }

    #[test]
    fn what_a_plugin_answers_is_passed_on() {
        let said = rpc_error(&Status::internal("no options"), Path::new("/widget.sock"));
        assert_eq!(said, "rpc error: code = Internal desc = no options");
    }
}
