//! `kubelet.sock`: where plugins register. Started last by `Kubelet::start`.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use kubelet_api::deviceplugin::v1beta1::registration_server::Registration;
use kubelet_api::deviceplugin::v1beta1::{Empty, RegisterRequest, VERSION};
use runtime::System;
use runtime::system::FileKind;
use tonic::{Request, Response, Status};

use super::endpoint;
use crate::calls::called;
use crate::kubelet::shared::Shared;

/// The registration service.
pub(crate) struct Registrar(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl Registration for Registrar {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let RegisterRequest { version, endpoint, resource_name, options: _ } = request.into_inner();
        // Go's plain errors have code Unknown; the texts are kubelet's (plugin/v1beta1/server.go).
        if version != VERSION {
            return Err(Status::unknown(format!(
                "requested API version {version:?} is not supported by kubelet. Supported version is [{VERSION:?}]"
            )));
        }
        if !is_extended_resource(&resource_name) {
            return Err(Status::unknown(format!("the ResourceName {resource_name:?} is invalid")));
        }
        let socket = self.0.config.plugins_dir().join(endpoint);
        let registered = tokio::select! {
            biased;
            () = self.0.stopping.cancelled() => Err(Status::unavailable("kubelet is stopping")),
            connected = endpoint::connect(&self.0, &resource_name, &socket) => connected,
        };
        match &registered {
            Ok(()) => called(format_args!("Register {resource_name} at {}: done", socket.display())),
            Err(error) => called(format_args!("Register {resource_name} at {}: {error}", socket.display())),
        }
        registered.map(|()| Response::new(Empty {}))
    }
}

/// `domain/name` outside Kubernetes' own domains (`v1helper.IsExtendedResourceName`).
fn is_extended_resource(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else { return false };
    let is_word = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.ends_with(|last: char| last.is_ascii_alphanumeric())
            && text.chars().all(|char| char.is_ascii_alphanumeric() || "-_.".contains(char))
    };
    let native =
        domain == "kubernetes.io" || domain.ends_with(".kubernetes.io") || name.starts_with("requests.");
    !native && is_word(domain) && is_word(rest) && domain == domain.to_lowercase() && rest.len() <= 63
}

/// Removes every socket in the folder, so that plugins notice the restart and register again. A plugin may remove its own
/// meanwhile.
pub(crate) async fn remove_sockets(system: &System, folder: &Path) -> io::Result<()> {
    for name in system.names(folder).await? {
        let path = folder.join(name);
        let removed = match system.status(&path).await {
            Ok(found) if found.kind == FileKind::Socket => system.remove(&path).await,
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        };
        removed.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })?;
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the plugin is another process")]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[tokio::test]
    async fn sockets_that_a_plugin_removes_meanwhile_are_no_error() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("checkpoint"), "").unwrap();
        let sockets: Vec<_> = (0..500).map(|number| folder.path().join(format!("{number}.sock"))).collect();
        for _ in 0..10 {
            let listeners: Vec<_> = sockets.iter().map(|path| UnixListener::bind(path).unwrap()).collect();
            let paths = sockets.clone();
            let plugin = std::thread::spawn(move || {
                for path in paths.iter().rev() {
                    let _gone = std::fs::remove_file(path);
                }
            });
            let removed = remove_sockets(&System::real(), folder.path()).await;
            plugin.join().unwrap();
            removed.unwrap();
            drop(listeners);
            let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
            assert_eq!(left.len(), 1, "the checkpoint alone");
        }
    }
}
