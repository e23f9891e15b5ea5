//! Starting, being ready, and what the command line takes.

use std::io::Read;
use std::process::Command;
use std::time::Duration;

use clap::Parser;
use fake_cluster::System;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::system::Address;
use http::Request;
use neuron_core::catalog::Catalog;
use neuron_core::topology::{Policy, rules};
use neuron_extender::{Arguments, Config, serve};
use serde_json::json;
use testkit_support::eventually;
use tokio_util::sync::CancellationToken;

use crate::http_client::plain_client;
use crate::support::World;

#[tokio::test]
async fn health_is_answered() {
    let world = World::with_nodes(&[]).await;
    assert_eq!(world.get("/healthz").await, (200, "ok".to_owned()));
    let ours = rules(Catalog::embedded(), Policy::Documented);
    assert_eq!(world.get("/readyz").await, (200, format!("ok\nrules: {ours}")));
}

#[tokio::test]
async fn before_the_first_lists_nothing_is_decided() {
    let mut world = World::with_nodes(&[("n1", "inf2.xlarge")]).await;
    let pod = world.pod("one", "neuron", 1).await;
    world.stop().await;
    world.faults.disconnect_watches(true);
    world.launch().await;
    let early = "the pods and nodes of the cluster have not been listed yet";
    assert_eq!(world.get("/healthz").await.0, 200);
    assert_eq!(world.get("/readyz").await, (503, early.to_owned()));
    assert_eq!(world.filter(&pod, &["n1"]).await["Error"], format!("{early}; try again"));
    assert_eq!(world.bind(&pod, "n1").await, format!("{early}; try again"));
    world.faults.disconnect_watches(false);
    eventually("the extender is ready", async || (world.get("/readyz").await.0 == 200).then_some(())).await;
    assert_eq!(world.bind(&pod, "n1").await, "");
}

#[tokio::test]
async fn the_program_serves_until_sigterm() {
    let api = ApiServer::new(Clock::new());
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let server = format!("http://{}", listener.address());
    let stop = CancellationToken::new();
    let serving = system.spawn(api.serve(&system, listener, stop.clone()));
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{"name": "test", "cluster": {"server": server}}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        "users": [{"name": "test", "user": {}}],
    });
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    std::fs::write(&kubeconfig, config.to_string()).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut program = Command::new(env!("CARGO_BIN_EXE_neuron-extender"))
        .args(["--listen", &format!("127.0.0.1:{port}"), "--kubeconfig"])
        .arg(&kubeconfig)
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let http = plain_client(&format!("http://127.0.0.1:{port}"));
    eventually("the program is ready", async || {
        http.request_text(Request::get("/readyz").body(Vec::new()).unwrap()).await.is_ok().then_some(())
    })
    .await;
    Command::new("kill").arg(program.id().to_string()).status().unwrap();
    eventually("the program has ended", async || program.try_wait().unwrap().is_some().then_some(())).await;
    assert!(program.wait().unwrap().success());
    let mut log = String::new();
    program.stderr.take().unwrap().read_to_string(&mut log).unwrap();
    assert_eq!(log.matches("effective configuration").count(), 1, "{log}");
    stop.cancel();
    serving.await.unwrap();
}

#[tokio::test]
async fn a_catalog_file_that_cannot_be_used_is_named() {
    let world = World::with_nodes(&[]).await;
    let config = Config { catalog: Some("/nowhere/catalog.json".into()), ..Config::default() };
    let system = System::real();
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).unwrap();
    let serving = serve(system, config, world.client.clone(), listener, CancellationToken::new());
    let error = serving.await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the catalog file /nowhere/catalog.json cannot be read: No such file or directory (os error 2)"
    );
}

#[test]
fn the_command_line_is_read() {
    let given = |arguments: &[&str]| Arguments::try_parse_from([&["neuron-extender"], arguments].concat());
    let all = ["--listen", "127.0.0.1:1", "--policy", "linked", "--bind-deadline", "500ms"];
    let arguments = given(&all).unwrap();
    assert_eq!(arguments.address().to_string(), "127.0.0.1:1");
    assert_eq!(arguments.config().bind_deadline, Duration::from_millis(500));
    assert_eq!(given(&["--port", "80"]).unwrap().address().to_string(), "0.0.0.0:80");
    let error = |arguments: &[&str]| given(arguments).unwrap_err().to_string();
    let shown = error(&["--policy", "any"]);
    assert!(shown.contains("\"any\" is not a placement policy; use documented or linked"), "{shown}");
    let shown = error(&["--bind-deadline", "0s"]);
    assert!(shown.contains("not a time above zero; write it like 4s or 500ms"), "{shown}");
}
