//! The production extender of the embedded cluster: one program behind a proxy, which may be stopped, killed and started
//! again. Used by [`super::cluster`].

use std::cell::Cell;
use std::net::{Ipv4Addr, SocketAddr};

use anyhow::{Context as _, bail};
use axum::body::Body;
use axum::http::Request;
use runtime::System;
use runtime::system::Address;
use simulator::Host;

use super::api_host::ApiHost;
use super::catalog_on;
use super::program::Program;
use crate::http_call::call;
use crate::scenario::CatalogSource;

/// The port that it listens on.
const PORT: u16 = 12345;

/// The extender, whether it runs or not.
pub(super) struct Extender {
    host: Host,
    api: ApiHost,
    config: neuron_extender::Config,
    program: Cell<Option<Program>>,
}

impl Extender {
    /// One that knows these instance types, and does not run yet.
    ///
    /// # Errors
    /// The catalog cannot be put among the host's files.
    pub(super) fn new(host: &Host, api: &ApiHost, catalog: &CatalogSource) -> anyhow::Result<Self> {
        let config = neuron_extender::Config {
            catalog: catalog_on(host, catalog)?,
            ..neuron_extender::Config::default()
        };
        Ok(Self { host: host.clone(), api: api.clone(), config, program: Cell::new(None) })
    }

    /// Starts it; its address, where it will be ready some time later.
    pub(super) fn start(&self) -> anyhow::Result<SocketAddr> {
        let process = self.host.process("extender");
        let (system, config) = (process.system(), self.config.clone());
        let client = self.api.client_on(&self.host);
        let listener = system.listen(&Address::Tcp((Ipv4Addr::UNSPECIFIED, PORT).into()));
        let listener = listener.with_context(|| format!("extender: port {PORT} is not free"))?;
        let Address::Tcp(address) = listener.address() else { bail!("extender: it listens on no port") };
        let serve = |shutdown| neuron_extender::serve(system, config, client, listener, shutdown);
        self.program.set(Some(Program::start(process, serve)));
        Ok(address)
    }

    /// The running program, which is the caller's to end.
    pub(super) fn take(&self) -> anyhow::Result<Program> {
        self.program.take().context("the extender is already stopped")
    }

    /// Ends it, if it runs.
    pub(super) async fn down(&self) -> anyhow::Result<()> {
        match self.program.take() {
            Some(program) => program.stop().await,
            None => Ok(()),
        }
    }
}

/// Whether the extender at this address answers `/readyz` with 200.
pub(super) async fn is_ready(system: &System, address: SocketAddr) -> bool {
    let mut request = Request::new(Body::empty());
    *request.uri_mut() = axum::http::Uri::from_static("/readyz");
    call(system, address, request).await.is_ok_and(|answer| answer.status().is_success())
}
