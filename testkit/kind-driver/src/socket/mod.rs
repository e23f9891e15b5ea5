//! Unix sockets in nodes, reached from the host: kubelet's are inside the node and a test is not, so that Docker brings
//! their bytes out and in.

use std::future::ready;
use std::io;
use std::process::Stdio;

use anyhow::Context as _;
use hyper_util::rt::TokioIo;
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tonic::transport::{Channel, Endpoint};

/// The program in the node.
const SCRIPT: &str = include_str!("pipe.pl");

/// Which end of a socket in the node is the host's.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// Calls whoever listens there.
    Connect,
    /// Listens there for one call.
    Listen,
}

/// A connection with a socket in a node.
#[derive(Debug)]
pub struct Pipe {
    /// What comes out of the node and what goes in.
    pub bytes: tokio::io::Join<ChildStdout, ChildStdin>,
    /// Ends the connection when it is dropped.
    pub program: Child,
}

/// Connects this socket of the node with the host.
///
/// # Errors
/// `docker exec` cannot be started. What goes wrong in the node ends the connection.
pub fn open(node: &str, end: End, socket: &str) -> anyhow::Result<Pipe> {
    let how = match end {
        End::Connect => "connect",
        End::Listen => "listen",
    };
    let mut program = Command::new("docker")
        .args(["exec", "-i", node, "perl", "-e", SCRIPT, how, socket])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .context("cannot start `docker exec`")?;
    let stdout = program.stdout.take().context("`docker exec` has no output")?;
    let stdin = program.stdin.take().context("`docker exec` has no input")?;
    Ok(Pipe { bytes: tokio::io::join(stdout, stdin), program })
}

/// Dials the gRPC server on a socket of the node. The connection lasts as long as the program that comes with it.
///
/// # Errors
/// There is no such socket, or nobody answers at it.
pub async fn dial(node: &str, socket: &str) -> anyhow::Result<(Channel, Child)> {
    let Pipe { bytes, program } = open(node, End::Connect, socket)?;
    let mut once = Some(TokioIo::new(bytes));
    let connector = tower::service_fn(move |_| {
        ready(once.take().ok_or_else(|| io::Error::other("the connection into the node has ended")))
    });
    // The address is never resolved.
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(connector)
        .await
        .with_context(|| format!("connecting to {socket} of {node}"))?;
    Ok((channel, program))
}
