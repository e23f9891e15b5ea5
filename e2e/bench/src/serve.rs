//! An extender as a process of its own: the hidden command `bench extender`, and the other side that starts it.
//! Both extenders are this program on one thread, so that what is compared is what they do.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use kind_driver::WAIT;
use runtime::System;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::passing;
use super::running::Running;
use super::variant::Extender;

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
}

/// Serves until the process is ended; logs go to standard error. On one thread, as neuron-extender itself.
///
/// # Errors
/// The kubeconfig or the address is of no use.
pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    // The same log as neuron-extender, for that is part of what it costs.
    runtime::log(runtime::LogFormat::Text);
    let client = runtime::client(Some(&arguments.kubeconfig)).await?;
    let listener = TcpListener::bind(arguments.listen).await?;
    match arguments.extender {
        Extender::Passing => Ok(axum::serve(listener, passing::router(client)).await?),
        Extender::Ours => {
            let config = neuron_extender::Config::default();
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
        extender: Extender,
        address: SocketAddr,
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
        let what = format!("the {word} extender");
        let mut program = Running::start(&what, command, log)?;
        let ready =
            async { WAIT.until(&format!("{what} to be ready"), async || Ok(is_ready(address).await)).await };
        program.while_it_runs("it was ready", ready).await?;
        Ok(Self { program })
    }

    /// Seconds of processor time it has used so far; none where the system does not say.
    pub(super) fn processor_seconds(&self) -> Option<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.program.id()?)).ok()?;
        // The second field, the program's name, may hold spaces; the 14th and 15th are hundredths of seconds.
        let (_, fields) = text.rsplit_once(')')?;
        let mut ticks = fields.split_whitespace().skip(11).map(str::parse::<f64>);
        Some((ticks.next()?.ok()? + ticks.next()?.ok()?) / 100.0)
    }

    /// Ends it and waits until it has ended, so that its port is free.
    pub(super) async fn stop(self) -> anyhow::Result<()> {
        self.program.stop().await
    }
}

async fn is_ready(address: SocketAddr) -> bool {
    let ask = async {
        let mut stream = TcpStream::connect(address).await.ok()?;
        let request = format!("GET /readyz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.ok()?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.ok()?;
        Some(answer.starts_with(b"HTTP/1.1 200"))
    };
    timeout(ANSWER, ask).await.ok().flatten().unwrap_or(false)
}
