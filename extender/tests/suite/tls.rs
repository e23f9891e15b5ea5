//! HTTPS: who may call, and files that change under a running extender.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use clap::Parser;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use http::Method;
use kube::Client;
use neuron_extender::{Arguments, Config, TlsFiles, serve};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};
use rstest::rstest;
use runtime::System;
use runtime::system::Address;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit_support::{eventually, within};
use tokio_util::sync::CancellationToken;

use crate::http_client::{call, http_client, try_call};
use crate::support::World;

/// A CA that signs for servers and clients.
pub(crate) struct Ca {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

impl Ca {
    pub(crate) fn new(name: &str) -> Ca {
        Ca::valid(name, CertificateParams::new([]).unwrap())
    }

    /// A CA with the dates of `params`.
    fn valid(name: &str, mut params: CertificateParams) -> Ca {
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Ca { pem, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn sign(&self, mut params: CertificateParams, usage: ExtendedKeyUsagePurpose) -> Pair {
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap().pem();
        Pair { certificate, key: key.serialize_pem() }
    }

    pub(crate) fn server(&self) -> Pair {
        self.sign(names(), ExtendedKeyUsagePurpose::ServerAuth)
    }

    fn client(&self) -> Pair {
        self.client_named("my-scheduler")
    }

    pub(crate) fn client_named(&self, name: &str) -> Pair {
        let mut params = CertificateParams::new([]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        self.sign(params, ExtendedKeyUsagePurpose::ClientAuth)
    }
}

fn names() -> CertificateParams {
    CertificateParams::new(["127.0.0.1".to_owned()]).unwrap()
}

/// A folder as a mounted Secret is one: `..data` leads to the contents of the day.
pub(crate) struct Secret {
    folder: TempDir,
}

impl Secret {
    pub(crate) fn new(pair: &Pair, client_ca: Option<&Ca>) -> Secret {
        let secret = Secret { folder: tempfile::tempdir().unwrap() };
        secret.write("first", pair, client_ca);
        symlink("first", secret.path("..data")).unwrap();
        for file in ["tls.crt", "tls.key", "ca.crt"] {
            symlink(Path::new("..data").join(file), secret.path(file)).unwrap();
        }
        secret
    }

    fn path(&self, file: &str) -> PathBuf {
        self.folder.path().join(file)
    }

    fn write(&self, day: &str, pair: &Pair, client_ca: Option<&Ca>) {
        fs::create_dir(self.path(day)).unwrap();
        fs::write(self.path(day).join("tls.crt"), &pair.certificate).unwrap();
        fs::write(self.path(day).join("tls.key"), &pair.key).unwrap();
        fs::write(self.path(day).join("ca.crt"), client_ca.map_or("", |ca| &ca.pem)).unwrap();
    }

    /// Swaps the contents as kubelet does.
    fn swap(&self, day: &str, pair: &Pair, client_ca: Option<&Ca>) {
        self.write(day, pair, client_ca);
        symlink(day, self.path("..next")).unwrap();
        fs::rename(self.path("..next"), self.path("..data")).unwrap();
    }

    fn files(&self, with_client_ca: bool) -> TlsFiles {
        TlsFiles {
            certificate: self.path("tls.crt"),
            key: self.path("tls.key"),
            client_ca: with_client_ca.then(|| self.path("ca.crt")),
        }
    }
}

/// An extender over HTTPS that is ready; it needs client certificates if told a CA for them.
pub(crate) async fn world(secret: &Secret, server_ca: &Ca, with_client_ca: bool) -> World {
    configured(Config::default(), secret, server_ca, with_client_ca).await
}

/// The same in a configuration that says nothing of TLS.
pub(crate) async fn configured(
    config: Config,
    secret: &Secret,
    server_ca: &Ca,
    with_client_ca: bool,
) -> World {
    let config = Config { tls: Some(secret.files(with_client_ca)), ..config };
    World::secured(config, Some(&server_ca.pem), &[("n1", "inf2.24xlarge")]).await
}

/// A client with connections of its own.
fn client(world: &World, server_ca: &Ca, identity: Option<&Pair>) -> Client {
    let folder = identity.map(|pair| Secret::new(pair, None));
    http_client(world.address(), Some(&server_ca.pem), folder.as_ref().map(|secret| secret.folder.path()))
}

pub(crate) fn question() -> String {
    json!({"Pod": {"spec": {"containers": []}}, "Nodes": null, "NodeNames": ["n1"]}).to_string()
}

async fn filter(http: &Client) -> (u16, Value) {
    let (status, text) = call(http.clone(), Method::POST, "/filter", question()).await;
    (status, serde_json::from_str(&text).unwrap())
}

#[tokio::test]
async fn verbs_need_a_client_certificate_and_probes_do_not() {
    let (server_ca, client_ca) = (Ca::new("servers"), Ca::new("clients"));
    let secret = Secret::new(&server_ca.server(), Some(&client_ca));
    let world = world(&secret, &server_ca, true).await;

    let scheduler = client(&world, &server_ca, Some(&client_ca.client()));
    let (status, answer) = filter(&scheduler).await;
    assert_eq!((status, &answer["NodeNames"]), (200, &json!(["n1"])));

    let probe = client(&world, &server_ca, None);
    for path in ["/healthz", "/readyz"] {
        let (status, text) = call(probe.clone(), Method::GET, path, String::new()).await;
        assert!(status == 200 && text.starts_with("ok"), "{path}: {status} {text}");
    }
    let long = "/apis/neuron-scheduler/v1/schedule";
    for path in ["/filter", "/bind", &format!("{long}/filter"), &format!("{long}/bind")] {
        let (status, text) = call(probe.clone(), Method::POST, path, question()).await;
        assert_eq!(status, 403, "{path}: {text}");
        let answer: Value = serde_json::from_str(&text).unwrap();
        let error = answer["Error"].as_str().unwrap();
        assert!(error.contains("only with a client certificate from its --client-ca"), "{error}");
    }

    // A certificate from another CA ends the handshake: not even the probes are answered.
    let stranger = client(&world, &server_ca, Some(&Ca::new("others").client()));
    assert!(try_call(stranger, Method::GET, "/healthz", String::new()).await.is_err());
    // And nobody can pass for the extender.
    let careful = client(&world, &Ca::new("others"), None);
    assert!(try_call(careful, Method::GET, "/healthz", String::new()).await.is_err());
}

#[tokio::test]
async fn without_a_client_ca_only_the_server_shows_a_certificate() {
    let ca = Ca::new("servers");
    let secret = Secret::new(&ca.server(), None);
    let world = world(&secret, &ca, false).await;
    assert_eq!(filter(&client(&world, &ca, None)).await.0, 200);
}

#[tokio::test]
async fn new_files_are_served_without_a_restart_and_open_connections_go_on() {
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let secret = Secret::new(&old.server(), Some(&old));
    let world = world(&secret, &old, true).await;
    let open = client(&world, &old, Some(&old.client()));
    assert_eq!(filter(&open).await.0, 200);

    secret.swap("second", &new.server(), Some(&new));
    eventually("new connections get the new certificate", async || {
        try_call(client(&world, &new, Some(&new.client())), Method::POST, "/filter", question())
            .await
            .is_ok_and(|(status, _)| status == 200)
            .then_some(())
    })
    .await;
    // Neither certificate would do for a new connection: the one from before is still in use.
    let again = try_call(client(&world, &old, Some(&old.client())), Method::GET, "/healthz", String::new());
    assert!(again.await.is_err());
    assert_eq!(filter(&open).await.0, 200);
}

#[tokio::test]
async fn files_that_cannot_be_used_change_nothing_until_they_are_put_right() {
    let (old, new) = (Ca::new("old"), Ca::new("new"));
    let secret = Secret::new(&old.server(), None);
    let program = Program::start(&secret).await;
    let health = |ca: &Ca| {
        let http = http_client(&program.address, Some(&ca.pem), None);
        async move { try_call(http, Method::GET, "/healthz", String::new()).await.is_ok() }
    };
    eventually("the program serves", async || health(&old).await.then_some(())).await;
    let halves = Pair { certificate: new.server().certificate, key: new.server().key };
    secret.swap("mismatched", &halves, None);
    program.says(" does not belong to the certificate ").await;
    assert!(health(&old).await);
    assert!(!health(&new).await);
    program.says("TLS handshake failed client=\"127.0.0.1:").await;
    secret.swap("empty", &Pair { certificate: String::new(), key: halves.key.clone() }, None);
    program.says("tls.crt contains no certificate").await;
    assert!(health(&old).await);
    secret.swap("right", &new.server(), None);
    program.says("TLS files reloaded").await;
    assert!(health(&new).await);
}

/// The program over HTTPS, with a log to read.
struct Program {
    address: String,
    child: Child,
    log: PathBuf,
    _folder: TempDir,
}

impl Program {
    async fn start(secret: &Secret) -> Program {
        let folder = tempfile::tempdir().unwrap();
        let (kubeconfig, log) = (folder.path().join("kubeconfig"), folder.path().join("log"));
        // No API server is needed to shake hands.
        let config = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": "http://127.0.0.1:1"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}],
        });
        fs::write(&kubeconfig, config.to_string()).unwrap();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(env!("CARGO_BIN_EXE_neuron-extender"))
            .args(["--listen", &format!("127.0.0.1:{port}"), "--kubeconfig"])
            .arg(&kubeconfig)
            .env("TLS_CERT", secret.path("tls.crt"))
            .env("TLS_KEY", secret.path("tls.key"))
            .stderr(fs::File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Program { address: format!("https://127.0.0.1:{port}"), child, log, _folder: folder }
    }

    async fn says(&self, text: &str) {
        eventually(text, async || fs::read_to_string(&self.log).unwrap().contains(text).then_some(())).await;
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts on files that a test made unusable; `{folder}` stands for theirs in the error.
async fn start_error(secret: &Secret, with_client_ca: bool) -> String {
    let config = Config { tls: Some(secret.files(with_client_ca)), ..Config::default() };
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let client = ApiServer::new(Clock::new()).client();
    let serving = serve(system, config, client, listener, CancellationToken::new());
    let error = within("the start to fail", serving).await.unwrap_err().to_string();
    error.replace(secret.folder.path().to_str().unwrap(), "{folder}")
}

#[tokio::test]
async fn files_that_cannot_be_used_at_the_start_are_named() {
    let ca = Ca::new("servers");
    let good = ca.server();
    let with = |certificate: &str, key: &str| {
        Secret::new(&Pair { certificate: certificate.to_owned(), key: key.to_owned() }, None)
    };
    assert_eq!(
        start_error(&with("", &good.key), false).await,
        "the TLS file {folder}/tls.crt contains no certificate; give PEM with -----BEGIN CERTIFICATE-----"
    );
    let error = start_error(&with(&good.certificate, "key"), false).await;
    assert!(error.starts_with("the TLS file {folder}/tls.key contains no private key: "), "{error}");
    let garbage = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let error = start_error(&with(garbage, &good.key), false).await;
    assert!(error.starts_with("the TLS file {folder}/tls.crt cannot be used: "), "{error}");
    assert_eq!(
        start_error(&with(&good.certificate, &ca.server().key), false).await,
        "the private key {folder}/tls.key does not belong to the certificate {folder}/tls.crt; give both of one pair"
    );
    assert_eq!(
        start_error(&Secret::new(&good, None), true).await,
        "the TLS file {folder}/ca.crt contains no certificate; give PEM with -----BEGIN CERTIFICATE-----"
    );
    let secret = Secret::new(&good, None);
    fs::remove_file(secret.path("tls.key")).unwrap();
    assert_eq!(
        start_error(&secret, false).await,
        "the TLS file {folder}/tls.key cannot be read: No such file or directory (os error 2)"
    );
}

#[tokio::test]
async fn certificates_of_another_day_are_named() {
    let ca = Ca::new("servers");
    let valid = |from: i32, to: i32| {
        let mut params = names();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params
    };
    let server = |params| ca.sign(params, ExtendedKeyUsagePurpose::ServerAuth);
    assert_eq!(
        start_error(&Secret::new(&server(valid(2001, 2002)), None), false).await,
        "the certificate in {folder}/tls.crt has expired at 2002-01-01T00:00:00Z; renew it"
    );
    assert_eq!(
        start_error(&Secret::new(&server(valid(4001, 4002)), None), false).await,
        "the certificate in {folder}/tls.crt is valid only from 4001-01-01T00:00:00Z; wait, or check the clock"
    );
    let expired = Ca::valid("expired", valid(2001, 2002));
    assert_eq!(
        start_error(&Secret::new(&ca.server(), Some(&expired)), true).await,
        "the certificate in {folder}/ca.crt has expired at 2002-01-01T00:00:00Z; renew it"
    );
}

#[rstest]
#[case::no_key(&["--tls-cert", "a"], "--tls-key <FILE>")]
#[case::no_certificate(&["--tls-key", "a"], "--tls-cert <FILE>")]
#[case::client_ca_alone(&["--client-ca", "a"], "--tls-key <FILE>\n  --tls-cert <FILE>")]
fn halves_of_tls_are_refused(#[case] given: &[&str], #[case] missing: &str) {
    let arguments = [&["neuron-extender"], given].concat();
    let error = Arguments::try_parse_from(arguments).unwrap_err().to_string();
    assert!(error.contains(&format!("required arguments were not provided:\n  {missing}")), "{error}");
}
