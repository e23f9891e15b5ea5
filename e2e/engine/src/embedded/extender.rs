//! The production extender of the embedded cluster: one program behind a proxy, which may be stopped, killed and started
//! again at another address. Used by [`super::cluster`].

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context as _;
use kube::Client;
use runtime::System;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::program::Program;
use crate::scenario::CatalogSource;

/// The extender, whether it runs or not.
pub(super) struct Extender {
    catalog: Option<PathBuf>,
    program: Mutex<Option<Program>>,
}

impl Extender {
    /// One that knows these instance types, and does not run yet.
    pub(super) fn new(catalog: &CatalogSource) -> Self {
        Self { catalog: catalog.file().map(ToOwned::to_owned), program: Mutex::new(None) }
    }

    /// Starts it; its address, where it will be ready some time later.
    pub(super) async fn start(&self, client: Client) -> anyhow::Result<SocketAddr> {
        let listener = TcpListener::bind("127.0.0.1:0").await.context("extender: no free loopback port")?;
        let address = listener.local_addr()?;
        let config =
            neuron_extender::Config { catalog: self.catalog.clone(), ..neuron_extender::Config::default() };
        let program = Program::start("extender", move |shutdown| {
            neuron_extender::serve(System::real(), config, client, Box::new(listener), shutdown)
        })?;
        *self.program.lock().await = Some(program);
        Ok(address)
    }

    /// The running program, which is the caller's to end.
    pub(super) async fn take(&self) -> anyhow::Result<Program> {
        self.program.lock().await.take().context("the extender is already stopped")
    }

    /// Ends it, if it runs.
    pub(super) async fn down(&self) -> anyhow::Result<()> {
        match self.program.lock().await.take() {
            Some(program) => program.stop().await,
            None => Ok(()),
        }
    }
}

/// Whether the extender at this address answers `/readyz` with 200.
pub(super) async fn is_ready(address: SocketAddr) -> bool {
    use hyper_util::client::legacy::Client;
    use hyper_util::rt::TokioExecutor;
    let client: Client<_, axum::body::Body> = Client::builder(TokioExecutor::new()).build_http();
    let Ok(uri) = format!("http://{address}/readyz").parse() else { return false };
    client.get(uri).await.is_ok_and(|response| response.status().is_success())
}
