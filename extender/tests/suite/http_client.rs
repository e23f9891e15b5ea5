//! HTTP calls to a running extender, as kube-scheduler and kubelet make them, with and without TLS.

use std::path::Path;

use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use testkit_support::within;

/// A plain HTTP client: kube's, which is at hand, without its repetitions.
pub(crate) fn plain_client(server: &str) -> Client {
    http_client(server, None, None)
}

/// A client with connections of its own, which trusts the CA `root` and shows `identity`: a folder with the
/// files `tls.crt` and `tls.key`.
pub(crate) fn http_client(server: &str, root: Option<&str>, identity: Option<&Path>) -> Client {
    // Fails only where another test has installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::new(server.parse().unwrap());
    config.default_retry = false;
    config.root_cert = root.map(|pem| vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()]);
    let file = |name: &str| identity.map(|folder| folder.join(name).to_str().unwrap().to_owned());
    config.auth_info.client_certificate = file("tls.crt");
    config.auth_info.client_key = file("tls.key");
    Client::try_from(config).unwrap()
}

pub(crate) async fn call(
    http: Client,
    method: Method,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> (u16, String) {
    try_call(http, method, path, body).await.unwrap()
}

/// The answer's status and text, or why there is no connection.
pub(crate) async fn try_call(
    http: Client,
    method: Method,
    path: &str,
    body: impl Into<Vec<u8>>,
) -> Result<(u16, String), kube::Error> {
    let request = Request::builder().method(method).uri(path).body(body.into().into()).unwrap();
    let response = within("an answer", http.send(request)).await?;
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    Ok((status, String::from_utf8(bytes.to_vec()).unwrap()))
}
