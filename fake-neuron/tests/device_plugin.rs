//! The device plugin runs unmodified, with default roots, inside `fake-neuron exec`. `NEURON_DEVICE_PLUGIN` names the program.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

use std::fs;
use std::process::{Child, Command};
use std::sync::Arc;

use fake_cluster::kubelet::{KubeletConfig, RecordingRuntime};
use fake_cluster::{ApiServer, Kubelet, System};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;
use testkit_support::eventually;
use tokio::net::TcpListener;

/// The running program, ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_device_plugin_runs_with_default_roots() {
    let Some(plugin) = std::env::var_os("NEURON_DEVICE_PLUGIN") else {
        assert!(std::env::var_os("NEURON_REQUIRE_FAKE").is_none(), "NEURON_DEVICE_PLUGIN names no program");
        println!("skipped: NEURON_DEVICE_PLUGIN names no program");
        return;
    };
    let folder = testkit_support::short_folder().unwrap();
    let kubelet_folder = folder.path().join("kubelet");
    let api = ApiServer::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = api.router();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let config = KubeletConfig::new("n1", &kubelet_folder);
    let runtime = Arc::new(RecordingRuntime::default());
    let kubelet = Kubelet::start(&System::real(), api.client(), &api, config, runtime).await.unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"Config\", \"current-context\": \"c\", \"contexts\": [{{\"name\": \"c\", \
         \"context\": {{\"cluster\": \"c\", \"user\": \"u\"}}}}], \"clusters\": [{{\"name\": \"c\", \"cluster\": {{\"server\": \
         \"http://{address}\"}}}}], \"users\": [{{\"name\": \"u\", \"user\": {{}}}}]}}"
    );
    fs::write(&kubeconfig, text).unwrap();

    let mut exec = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
    exec.args(["exec", "--instance-type", "trn2.48xlarge", "--lnc", "1", "--"]).arg(plugin);
    exec.args(["--node-name", "n1", "--kubelet-dir"]).arg(&kubelet_folder);
    exec.arg("--kubeconfig").arg(&kubeconfig).env_remove("NEURON_ROOT");
    let _running = Running(exec.spawn().unwrap());
    let nodes: Api<Node> = Api::all(api.client());
    eventually("the node to offer every device and core", async || {
        let offered = nodes.get("n1").await.ok()?.status?.allocatable?;
        let count = |name: &str| Some(offered.get(name)?.0.as_str());
        (count("aws.amazon.com/neuron")? == "16" && count("aws.amazon.com/neuroncore")? == "128")
            .then_some(())
    })
    .await;
    kubelet.stop().await;
}
