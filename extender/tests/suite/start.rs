//! Starting, being ready, and what the command line takes.

use std::time::Duration;

use clap::Parser;
use fake_cluster::System;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::system::Address;
use neuron_core::catalog::Catalog;
use neuron_core::topology::{Policy, rules};
use neuron_extender::{Arguments, Config, serve};
use testkit_support::eventually;
use tokio_util::sync::CancellationToken;

use crate::program::Program;
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
    let log = Program::start(ApiServer::new(Clock::new()), &[]).await.end().await;
    assert_eq!(log.matches("effective configuration").count(), 1, "{log}");
    assert!(log.contains("policy=documented (default), bind-deadline=4s (default)"), "{log}");
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
    assert_eq!(given(&["--port", "80"]).unwrap().address().to_string(), "[::]:80");
    let error = |arguments: &[&str]| given(arguments).unwrap_err().to_string();
    let shown = error(&["--policy", "any"]);
    assert!(shown.contains("\"any\" is not a placement policy; use documented or linked"), "{shown}");
    let shown = error(&["--bind-deadline", "0s"]);
    assert!(shown.contains("not a time above zero; write it like 4s or 500ms"), "{shown}");
}
