//! A failed call of a plugin in Go's words, because users read it in a pod's status. Used by `endpoint`, `allocate` and
//! `choose_ids`.

use std::io;
use std::path::Path;

use tonic::{Code, Status};

/// A gRPC error as Go prints it. A call that did not reach the plugin on `socket`, or whose connection broke, has grpc-go's
/// text instead of this transport's.
pub(crate) fn rpc_error(status: &Status, socket: &Path) -> String {
    // Only a transport error has a source: what a plugin answers has none.
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

/// Why the socket could not be dialled, in Go's words; `None` for another error.
fn refusal(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some("connection refused"),
        io::ErrorKind::NotFound => Some("no such file or directory"),
        _ => None,
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the plugin is another process")]
mod tests {
    use kubelet_api::deviceplugin::v1beta1::Empty;
    use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;

    use super::*;

    /// The error of a call after the plugin, which had accepted the connection, did `meanwhile` with its socket.
    async fn after(meanwhile: impl FnOnce(tokio::net::UnixListener, &Path)) -> String {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("widget.sock");
        let listener = kubelet_api::unix::listen(&socket).unwrap();
        let mut client = DevicePluginClient::new(kubelet_api::unix::connect(&socket).await.unwrap());
        drop(listener.accept().await.unwrap());
        meanwhile(listener, &socket);
        // The first call may still meet the connection that has just broken.
        let mut text = String::new();
        for _ in 0..2 {
            let error = client.get_device_plugin_options(Empty {}).await.unwrap_err();
            text = rpc_error(&error, &socket).replace(&*folder.path().to_string_lossy(), "FOLDER");
        }
        text
    }

    #[tokio::test]
    async fn a_plugin_that_is_gone_is_worded_as_grpc_go_does() {
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
    fn a_connection_that_breaks_during_a_call_is_worded_as_grpc_go_does() {
        let broken = io::Error::from(io::ErrorKind::BrokenPipe);
        let text = rpc_error(&Status::from_error(Box::new(broken)), Path::new("/widget.sock"));
        assert_eq!(text, "rpc error: code = Unavailable desc = error reading from server: EOF");
    }

    #[test]
    fn what_a_plugin_answers_is_passed_on() {
        let text = rpc_error(&Status::internal("no options"), Path::new("/widget.sock"));
        assert_eq!(text, "rpc error: code = Internal desc = no options");
    }
}
