//! An extender as a process of its own: the hidden command `bench extender`, and the other side that starts it.
//! Both extenders are this program on one thread, so that what is compared is what they do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use axum::http::Request;
use clap::Args;
use kind_driver::WAIT;
use kube::Client;
use runtime::System;
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::certificate::Certificate;
use super::https::Https;
use super::passing;
use super::running::Running;
use super::variant::{Extender, Variant};

/// Longest wait for one answer while the extender starts.
const ANSWER: Duration = Duration::from_secs(3);

/// The command line of the process.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Which extender.
    #[arg(value_enum)]
    extender: Extender,
    /// Address and port to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// Kubeconfig file.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// Folder with a certificate and its key, over which it serves HTTPS; HTTP without one.
    #[arg(long)]
    tls: Option<PathBuf>,
    /// Have ours log AWS' lines, too.
    #[arg(long)]
    classic: bool,
}

/// Serves until the process is ended; logs go to standard error. On one thread, as neuron-extender itself.
///
/// # Errors
/// The kubeconfig or the address is of no use.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    // The same log as neuron-extender, for that is part of what it costs.
    if arguments.classic {
        runtime::log_with_plain_lines(neuron_extender::CLASSIC_LINES);
    } else {
        runtime::log(runtime::LogFormat::Text);
    }
    let client = runtime::client(Some(&arguments.kubeconfig)).await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    match arguments.extender {
        Extender::Passing => {
            let routes = passing::router(client);
            match arguments.tls {
                None => Ok(axum::serve(listener, routes).await?),
                Some(folder) => Ok(axum::serve(Https::of(listener, &folder)?, routes).await?),
            }
        }
        Extender::Ours => {
            let tls = arguments.tls.as_deref().map(Certificate::files);
            let config = neuron_extender::Config { tls, ..neuron_extender::Config::default() };
            let listener = Box::new(listener);
            neuron_extender::serve(System::real(), config, client, listener, CancellationToken::new()).await
        }
    }
}

/// A running extender; it ends when dropped.
pub(super) struct Process {
    program: Running,
}

impl Process {
    /// Starts this program as the extender and waits until it is ready. What it logs goes to the file.
    pub(super) async fn start(
        variant: Variant,
        extender: Extender,
        (address, tls): (SocketAddr, Option<&Certificate>),
        kubeconfig: &str,
        log: &Path,
    ) -> anyhow::Result<Self> {
        let word = match extender {
            Extender::Passing => "passing",
            Extender::Ours => "ours",
        };
        let program = std::env::current_exe().context("the path of this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "extender", word, "--listen", &address.to_string()]);
        command.args(["--kubeconfig", kubeconfig]);
        if let Some(tls) = tls {
            command.arg("--tls").arg(tls.folder());
        }
        if variant.logs_as_deployed() {
            command.arg("--classic");
        }
        let asked = readiness(address, tls)?;
        let what = format!("the {word} extender");
        let mut program = Running::start(&what, command, log)?;
        let ready =
            async { WAIT.until(&format!("{what} to be ready"), async || Ok(is_ready(&asked).await)).await };
        program.while_it_runs("it was ready", ready).await?;
        Ok(Self { program })
    }

    /// Seconds of processor time it has used so far; none where the system does not say.
    pub(super) fn processor_seconds(&self) -> Option<f64> {
        processor_seconds(&std::fs::read_to_string(format!("/proc/{}/stat", self.program.id()?)).ok()?)
    }

    /// Ends it and waits until it has ended, so that its port is free.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.program.stop().await
    }
}

/// Seconds of processor time by a process' `/proc/PID/stat`.
pub(super) fn processor_seconds(stat: &str) -> Option<f64> {
    // The second field, the program's name, may hold spaces; the 14th and 15th are hundredths of seconds.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
    Some((ticks.next()?.ok()? + ticks.next()?.ok()?) / 100.0)
}

/// Who asks the extender whether it is ready.
fn readiness(address: SocketAddr, tls: Option<&Certificate>) -> anyhow::Result<Client> {
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut config = kube::Config::new(format!("{scheme}://{address}").parse()?);
    config.root_cert = tls.map(|tls| vec![tls.der().to_vec()]);
    (config.connect_timeout, config.read_timeout) = (Some(ANSWER), Some(ANSWER));
    Ok(Client::try_from(config)?)
}

async fn is_ready(asked: &Client) -> bool {
    let request = Request::get("/readyz").body(Vec::new());
    let Ok(request) = request else { return false };
    timeout(ANSWER, asked.request_text(request)).await.is_ok_and(|answer| answer.is_ok())
}
