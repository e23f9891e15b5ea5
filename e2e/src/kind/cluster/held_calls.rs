//! What takes the calls of a webhook that never answers them, and the Bindings that these calls are about. Used by
//! [`super::held_bindings`].

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use anyhow::Context as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rcgen::{CertificateParams, KeyPair};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde::Deserialize;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// What the API server posts to a webhook, as far as it is needed.
#[derive(Deserialize)]
struct AdmissionReview {
    request: HeldBinding,
}

/// A Binding that the API server asks about.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HeldBinding {
    pub(super) namespace: String,
    /// The pod's.
    pub(super) name: String,
    /// The Binding itself, as its sender wrote it.
    pub(super) object: Value,
    pub(super) user_info: Sender,
}

/// Who sent a Binding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(super) struct Sender {
    pub(super) username: String,
    #[serde(default)]
    pub(super) groups: Vec<String>,
}

/// The calls so far, in their order.
#[derive(Default)]
pub(super) struct Calls(Mutex<Vec<Call>>);

struct Call {
    about: HeldBinding,
    /// The API server has given it up: the Binding's time is over, and it was not carried out.
    has_hung_up: bool,
}

impl Calls {
    /// Whether there was one, open or not.
    pub(super) fn is_any(&self) -> bool {
        !self.all().is_empty()
    }

    /// The Bindings that the API server has given up: of each pod the first one, as a sender may repeat it. None of a pod that an open call
    /// is about: that Binding is carried out by the API server once the call is closed.
    pub(super) fn given_up(&self) -> Vec<HeldBinding> {
        let calls = self.all();
        let is_of_one_pod = |one: &HeldBinding, other: &HeldBinding| {
            (&one.namespace, &one.name) == (&other.namespace, &other.name)
        };
        let mut given_up: Vec<HeldBinding> = Vec::new();
        for Call { about, .. } in calls.iter().filter(|call| call.has_hung_up) {
            let is_open = calls.iter().any(|call| !call.has_hung_up && is_of_one_pod(&call.about, about));
            if !is_open && !given_up.iter().any(|earlier| is_of_one_pod(earlier, about)) {
                given_up.push(about.clone());
            }
        }
        given_up
    }

    /// Which one it is.
    fn begin(&self, about: HeldBinding) -> usize {
        let mut calls = self.all();
        calls.push(Call { about, has_hung_up: false });
        calls.len() - 1
    }

    fn hung_up(&self, call: usize) {
        if let Some(call) = self.all().get_mut(call) {
            call.has_hung_up = true;
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Call>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps every call open until this is dropped.
pub(super) async fn serve(listener: TcpListener, acceptor: TlsAcceptor, calls: Arc<Calls>) {
    let mut connections = JoinSet::new();
    // Where no call can be taken any more, who waits for one says so.
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(keep_open(acceptor.clone(), stream, Arc::clone(&calls)));
    }
}

/// Reads what the API server asks, and answers nothing until it hangs up.
async fn keep_open(acceptor: TlsAcceptor, stream: TcpStream, calls: Arc<Calls>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let call = OnceLock::new();
    let (calls, begun) = (&*calls, &call);
    let never_answers = service_fn(move |request: Request<Incoming>| async move {
        let about = binding_of(request).await?;
        begun.get_or_init(|| calls.begin(about));
        // What cannot be read has ended the call by now, and the API server goes on: who waits for the call says that there is none.
        anyhow::Ok(std::future::pending::<Response<String>>().await)
    });
    // Comes to its end only where the API server hangs up: a call that is closed from here ends with its task.
    let _hung_up = http1::Builder::new().serve_connection(TokioIo::new(stream), never_answers).await;
    if let Some(call) = call.get() {
        calls.hung_up(*call);
    }
}

async fn binding_of(request: Request<Incoming>) -> anyhow::Result<HeldBinding> {
    let body = request.into_body().collect().await.context("reading an AdmissionReview")?.to_bytes();
    let review: AdmissionReview = serde_json::from_slice(&body).context("an AdmissionReview")?;
    Ok(review.request)
}

/// What takes calls at this address, and the certificate that it shows, as PEM.
pub(super) fn tls(ip: IpAddr) -> anyhow::Result<(TlsAcceptor, String)> {
    let key = KeyPair::generate()?;
    let certificate = CertificateParams::new([ip.to_string()])?.self_signed(&key)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)?;
    Ok((TlsAcceptor::from(Arc::new(config)), certificate.pem()))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use serde_json::json;
    use testkit_support::{eventually, within};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio_rustls::client::TlsStream;

    use super::*;

    #[tokio::test]
    async fn a_binding_is_given_up_where_the_api_server_hangs_up_and_is_carried_out_where_its_call_is_open() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        let (acceptor, certificate) = tls(ip).unwrap();
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Calls::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&calls)));
        let are = |wanted: usize| {
            let calls = Arc::clone(&calls);
            async move || (calls.all().len() == wanted).then_some(())
        };
        let mut late = as_the_api_server(address, &certificate).await;
        let text = review("late", "1").to_string();
        let (first, second) = text.split_at(20);
        // In two chunks: it is held once all of it is there.
        let head = "POST /?timeout=3s HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
        send(&mut late, &format!("{head}{:x}\r\n{first}\r\n", first.len())).await;
        assert!(!calls.is_any());
        send(&mut late, &format!("{:x}\r\n{second}\r\n0\r\n\r\n", second.len())).await;
        eventually("the call to wait", are(1)).await;
        let mut open = as_the_api_server(address, &certificate).await;
        let text = review("open", "2").to_string();
        let head = format!("POST /?timeout=3s HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", text.len());
        send(&mut open, &(head + &text)).await;
        eventually("the other call to wait", are(2)).await;
        assert_eq!(calls.given_up(), []);
        drop(late);
        let given_up = eventually("the first call to be over", async || calls.given_up().pop()).await;
        let sender = Sender { username: "extender".to_owned(), groups: vec!["everybody".to_owned()] };
        assert_eq!(given_up, HeldBinding { user_info: sender, ..about("late", "1") });
        assert!(calls.is_any(), "it still waits, wherever it is");
        drop(serving);
        // Closed, so that the API server goes on.
        let read = within("the call to be closed", open.read(&mut [0; 1])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        assert_eq!(calls.given_up().len(), 1, "the one that was open is carried out by the API server");
    }

    #[tokio::test]
    async fn a_call_about_nothing_is_closed_at_once() {
        let ip = IpAddr::from([127, 0, 0, 1]);
        let (acceptor, certificate) = tls(ip).unwrap();
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Calls::default());
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, acceptor, Arc::clone(&calls)));
        let mut call = as_the_api_server(address, &certificate).await;
        send(&mut call, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\n{}").await;
        let read = within("the call to be closed", call.read(&mut [0; 1])).await;
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
        assert!(!calls.is_any());
    }

    #[test]
    fn of_each_pod_the_first_binding_is_late_unless_one_is_open() {
        let calls = Calls::default();
        let repeated = [calls.begin(about("repeated", "1")), calls.begin(about("repeated", "2"))];
        let open_again = calls.begin(about("open-again", "3"));
        calls.begin(about("open-again", "4"));
        for call in repeated.into_iter().chain([open_again]) {
            calls.hung_up(call);
        }
        assert_eq!(calls.given_up(), [about("repeated", "1")]);
    }

    fn about(pod: &str, uid: &str) -> HeldBinding {
        HeldBinding {
            namespace: "default".to_owned(),
            name: pod.to_owned(),
            object: json!({"kind": "Binding", "metadata": {"uid": uid}}),
            user_info: Sender { username: "extender".to_owned(), groups: Vec::new() },
        }
    }

    fn review(pod: &str, uid: &str) -> Value {
        let HeldBinding { namespace, name, object, .. } = about(pod, uid);
        let sender = json!({"username": "extender", "uid": "u", "groups": ["everybody"]});
        let request = json!({
            "uid": "r",
            "namespace": namespace,
            "name": name,
            "object": object,
            "userInfo": sender,
            "subResource": "binding",
        });
        json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request})
    }

    async fn send(call: &mut TlsStream<TcpStream>, text: &str) {
        call.write_all(text.as_bytes()).await.unwrap();
        call.flush().await.unwrap();
    }

    /// A connection that trusts this certificate alone.
    async fn as_the_api_server(address: SocketAddr, certificate: &str) -> TlsStream<TcpStream> {
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
