//! Bindings that wait at the API server before it carries them out: a webhook, which is this program, takes them and never answers. Who
//! sent one may be stopped meanwhile. Called by [`crate::kind::stage`].

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard, PoisonError};

use anyhow::Context as _;
use k8s_openapi::ByteString;
use kind_driver::WAIT;
use neuron_e2e_engine::cluster::NAMESPACE;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::KindCluster;

/// The webhooks' object.
const NAME: &str = "neuron-e2e-held-bindings";
/// No pod has this name: what is said of its Binding tells whether the API server asks webhooks.
const PROBE: &str = "neuron-e2e-is-there-a-webhook";
/// Where nobody listens, so that the probe is refused at once.
const NOWHERE: &str = "https://127.0.0.1:1/";
/// What the API server says of the probe then.
const ASKED: &str = "failed calling webhook";
/// How many seconds the API server waits for a webhook, at most; then the Binding is carried out.
const LONGEST: u8 = 30;

/// The webhook. Where it is dropped its calls are closed, and the API server carries out what they ask about.
pub(super) struct HeldBindings {
    waiting: Arc<AtomicUsize>,
    _serving: JoinSet<()>,
}

impl KindCluster {
    /// Bindings of these pods wait at the API server from now on, each for half a minute at most.
    pub(in crate::kind) async fn hold_bindings(&self, pods: &[String]) -> anyhow::Result<()> {
        let ip = self.proxy.address().ip();
        let (acceptor, certificate) = tls(ip).context("making the webhook's certificate")?;
        let listener = TcpListener::bind((ip, 0)).await.with_context(|| format!("no free port of {ip}"))?;
        let webhooks = configuration(listener.local_addr()?, certificate, pods)?;
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&waiting)));
        *self.held() = Some(HeldBindings { waiting, _serving: serving });
        self.driver.kubectl(&["apply", "-f", "-"], &webhooks.to_string()).await?;
        WAIT.until("the API server to ask a webhook about Bindings", async || self.asks_webhooks().await)
            .await
    }

    /// Whether a Binding waits now.
    pub(in crate::kind) fn is_binding_held(&self) -> bool {
        self.held().as_ref().is_some_and(|held| held.waiting.load(Ordering::Relaxed) > 0)
    }

    /// Lets Bindings that wait be carried out, and later ones pass.
    pub(in crate::kind) async fn release_bindings(&self) -> anyhow::Result<()> {
        let Some(held) = self.held().take() else { return Ok(()) };
        drop(held);
        let delete = ["delete", "validatingwebhookconfiguration", NAME, "--ignore-not-found"];
        self.driver.kubectl(&delete, "").await.map(drop)
    }

    async fn asks_webhooks(&self) -> anyhow::Result<bool> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{PROBE}/binding");
        let target = json!({"kind": "Node", "name": "none"});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": PROBE}, "target": target});
        let answer = self.driver.kubectl(&["create", "--raw", &path, "-f", "-"], &binding.to_string()).await;
        Ok(answer.is_err_and(|refused| format!("{refused:#}").contains(ASKED)))
    }

    fn held(&self) -> MutexGuard<'_, Option<HeldBindings>> {
        self.held_bindings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps every call open until this is dropped.
async fn serve(listener: TcpListener, acceptor: TlsAcceptor, waiting: Arc<AtomicUsize>) {
    let mut calls = JoinSet::new();
    // Where no call can be taken any more, who waits for one says so.
    while let Ok((stream, _)) = listener.accept().await {
        calls.spawn(keep_open(acceptor.clone(), stream, Arc::clone(&waiting)));
    }
}

/// Reads what the API server asks, and answers nothing until it hangs up.
async fn keep_open(acceptor: TlsAcceptor, stream: TcpStream, waiting: Arc<AtomicUsize>) {
    let Ok(mut call) = acceptor.accept(stream).await else { return };
    let (mut bytes, mut has_begun) = ([0; 4096], false);
    while matches!(call.read(&mut bytes).await, Ok(1..)) {
        if !has_begun {
            waiting.fetch_add(1, Ordering::Relaxed);
            has_begun = true;
        }
    }
    if has_begun {
        waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What takes the webhook's calls at this address, and the certificate that it shows, as PEM.
fn tls(ip: IpAddr) -> anyhow::Result<(TlsAcceptor, String)> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([ip.to_string()])?.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), certificate.pem()))
}

/// The webhook for Bindings of these pods, and beside it one that refuses the probe: the API server hears of both at one time.
fn configuration(address: SocketAddr, certificate: String, pods: &[String]) -> anyhow::Result<Value> {
    let certificate = ByteString(certificate.into_bytes());
    let webhook = |name: &str, url: &str, policy: &str, expression: String| {
        json!({
            "name": format!("{name}.bindings.neuron-e2e"),
            "clientConfig": {"url": url, "caBundle": certificate},
            "rules": [{
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "operations": ["CREATE"],
                "resources": ["pods/binding"],
            }],
            "matchConditions": [{
                "name": "is-its-pod",
                "expression": format!("request.namespace == '{NAMESPACE}' && {expression}"),
            }],
            "failurePolicy": policy,
            "timeoutSeconds": LONGEST,
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        })
    };
    let names = serde_json::to_string(pods)?;
    let held = webhook("held", &format!("https://{address}/"), "Ignore", format!("request.name in {names}"));
    let probe = webhook("probe", NOWHERE, "Fail", format!("request.name == '{PROBE}'"));
    Ok(json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": NAME},
        "webhooks": [held, probe],
    }))
}

#[cfg(test)]
mod tests {
    use testkit_support::{eventually, within};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[test]
    fn bindings_of_other_pods_pass() {
        let pods = ["late".to_owned(), "later".to_owned()];
        let address = "172.18.0.1:40001".parse().unwrap();
        let webhooks = configuration(address, "PEM".to_owned(), &pods).unwrap();
        let held = &webhooks["webhooks"][0];
        let expression = &held["matchConditions"][0]["expression"];
        assert_eq!(expression, r#"request.namespace == 'default' && request.name in ["late","later"]"#);
        assert_eq!(held["clientConfig"], json!({"url": "https://172.18.0.1:40001/", "caBundle": "UEVN"}));
        assert_eq!(held["failurePolicy"], "Ignore", "it is carried out once nobody answers");
    }

    #[tokio::test]
    async fn a_call_waits_once_it_has_said_something_and_until_it_hangs_up() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        let (acceptor, certificate) = tls(ip).unwrap();
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&waiting)));
        let are_waiting = |count: usize| {
            let waiting = Arc::clone(&waiting);
            async move || (waiting.load(Ordering::Relaxed) == count).then_some(())
        };
        let mut call = as_the_api_server(address, &certificate).await;
        assert_eq!(waiting.load(Ordering::Relaxed), 0);
        call.write_all(b"POST / HTTP/1.1").await.unwrap();
        call.flush().await.unwrap();
        eventually("the call to wait", are_waiting(1)).await;
        drop(call);
        eventually("the call to be over", are_waiting(0)).await;
        let mut call = as_the_api_server(address, &certificate).await;
        drop(serving);
        // Closed, so that the API server goes on.
        let read = within("the call to be closed", call.read(&mut [0; 1])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }

    /// A connection that trusts this certificate alone.
    async fn as_the_api_server(
        address: SocketAddr,
        certificate: &str,
    ) -> tokio_rustls::client::TlsStream<TcpStream> {
        use rustls::pki_types::pem::PemObject as _;
        use rustls::pki_types::{CertificateDer, ServerName};

        let mut roots = rustls::RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()).unwrap();
        let config = rustls::ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await.unwrap();
        let name = ServerName::IpAddress(address.ip().into());
        tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}
