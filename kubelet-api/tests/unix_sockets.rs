//! A call over a real Unix socket, and sockets that cannot be used.

use std::path::Path;

use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::registration_server::{Registration, RegistrationServer};
use kubelet_api::deviceplugin::v1beta1::{Empty, RegisterRequest};
use kubelet_api::unix;
use tonic::{Request, Response, Status};

struct Refusing;

#[tonic::async_trait]
impl Registration for Refusing {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        Err(Status::invalid_argument(format!("no {}", request.into_inner().resource_name)))
    }
}

#[tokio::test]
async fn a_call_crosses_the_socket_both_ways() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("kubelet.sock");
    let listener = unix::listen(&socket).unwrap();
    let server = tonic::transport::Server::builder().add_service(RegistrationServer::new(Refusing));
    let serving = tokio::spawn(server.serve_with_incoming(unix::incoming(listener)));

    let mut client = RegistrationClient::new(unix::connect(&socket).await.unwrap());
    let request = RegisterRequest { resource_name: "example.com/widget".to_owned(), ..Default::default() };
    let answer = client.register(request).await.unwrap_err();

    assert_eq!(answer.message(), "no example.com/widget");
    serving.abort();
}

#[tokio::test]
async fn a_missing_socket_is_named() {
    let error = unix::connect(Path::new("/nowhere/kubelet.sock")).await.unwrap_err();
    assert_eq!(error.to_string(), "cannot reach /nowhere/kubelet.sock; is somebody listening on it?");
}

#[tokio::test]
async fn a_path_that_is_too_long_is_refused() {
    let path = Path::new("/tmp").join("x".repeat(103));
    let error = unix::listen(&path).unwrap_err().to_string();
    assert!(error.contains("has 108 bytes, at most 107 fit"), "{error}");
}
