//! `neuron-extender` as a process, beside an API server in memory.

use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Output, Stdio};

use fake_cluster::api::ApiServer;
use fake_cluster::system::{Address, Task};
use http::{Method, Request};
use kube::Client;
use runtime::System;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit_support::eventually;
use tokio_util::sync::CancellationToken;

use crate::http_client::{call, plain_client};

/// The program with these words behind its name and these variables; it ends by itself.
pub(crate) fn run(words: &[&str], variables: &[(&str, &str)]) -> Output {
    command(words, variables).output().unwrap()
}

/// The same, with its log written there.
pub(crate) fn run_with_log(words: &[&str], log: Stdio) -> ExitStatus {
    command(words, &[]).stderr(log).status().unwrap()
}

fn command(words: &[&str], variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_neuron-extender"));
    command.args(words).envs(variables.iter().copied());
    command
}

/// A process that does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A running program that is ready.
pub(crate) struct Program {
    http: Client,
    program: Process,
    _kubeconfig: TempDir,
    stop: CancellationToken,
    serving: Task<()>,
}

impl Program {
    /// Starts it with these words; where it listens and finds the API server is added.
    pub(crate) async fn start(api: ApiServer, words: &[&str]) -> Self {
        let system = System::real();
        let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
        let server = format!("http://{}", listener.address());
        let stop = CancellationToken::new();
        let serving = system.spawn(api.serve(&system, listener, stop.clone()));
        let folder = tempfile::tempdir().unwrap();
        let kubeconfig = folder.path().join("kubeconfig");
        write_kubeconfig(&kubeconfig, &server);
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let ours = ["--listen", &address, "--kubeconfig", kubeconfig.to_str().unwrap()];
        let program = command(&[&ours, words].concat(), &[]).stderr(Stdio::piped()).spawn().unwrap();
        let http = plain_client(&format!("http://{address}"));
        eventually("the program is ready", async || {
            let request = Request::get("/readyz").body(Vec::new()).unwrap();
            http.request_text(request).await.is_ok().then_some(())
        })
        .await;
        Self { http, program: Process(program), _kubeconfig: folder, stop, serving }
    }

    /// What a verb answers.
    pub(crate) async fn ask(&self, path: &str, body: Value) -> Value {
        let (status, text) = call(self.http.clone(), Method::POST, path, body.to_string()).await;
        assert_eq!(status, 200, "{text}");
        serde_json::from_str(&text).unwrap()
    }

    /// Ends it as kubelet does; what it has logged.
    pub(crate) async fn end(mut self) -> String {
        Command::new("kill").arg(self.program.0.id().to_string()).status().unwrap();
        eventually("the program has ended", async || {
            self.program.0.try_wait().unwrap().is_some().then_some(())
        })
        .await;
        assert!(self.program.0.wait().unwrap().success());
        let mut log = String::new();
        self.program.0.stderr.take().unwrap().read_to_string(&mut log).unwrap();
        self.stop.cancel();
        self.serving.await.unwrap();
        log
    }
}

fn write_kubeconfig(path: &Path, server: &str) {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
    });
    std::fs::write(path, config.to_string()).unwrap();
}
