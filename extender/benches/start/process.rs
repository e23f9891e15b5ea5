//! This program as a process of its own, for one of the ways. Used by what measures them.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Pause between two looks whether the extender is ready.
const PAUSE: Duration = Duration::from_millis(5);

/// Longest wait for the extender to be ready, and for one answer.
const LONGEST: Duration = Duration::from_secs(120);

/// A running process; it is killed when dropped.
pub(crate) struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts this program with these arguments. What it logs is written to nowhere, or, with `RUST_LOG`, shown.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let log = if std::env::var_os("RUST_LOG").is_some() { Stdio::inherit() } else { Stdio::null() };
        let program = std::env::current_exe().expect("this program's path");
        let mut command = Command::new(program);
        let mut child =
            command.args(arguments).stdout(Stdio::piped()).stderr(log).spawn().expect("a process for a way");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        Self { child, output }
    }

    /// What it says next; empty at its end.
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("text from a way");
        line.trim_end().to_owned()
    }

    /// An amount of memory by its name in `/proc/PID/status`, in MiB.
    pub(crate) fn memory(&self, name: &str) -> f64 {
        let path = format!("/proc/{}/status", self.child.id());
        let status = std::fs::read_to_string(path).expect("Linux' status of the process");
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        let kibibytes = line.expect("the amount").trim().trim_end_matches(" kB").parse::<f64>();
        kibibytes.expect("a number") / 1024.0
    }

    /// Waits for its end, which has to be a success.
    pub(crate) fn ended(mut self) {
        let status = self.child.wait().expect("the end of a way");
        assert!(status.success(), "a way has failed; RUST_LOG=info shows why");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the extender that listens there is ready.
pub(crate) fn until_ready(address: SocketAddr) {
    let began = Instant::now();
    while !is_ready(address) {
        assert!(began.elapsed() < LONGEST, "the extender was not ready; RUST_LOG=info shows why");
        std::thread::sleep(PAUSE);
    }
}

/// Whether it is ready. While its thread is busy the answer waits.
fn is_ready(address: SocketAddr) -> bool {
    let ask = || -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(LONGEST))?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: bench\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    };
    ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
}
