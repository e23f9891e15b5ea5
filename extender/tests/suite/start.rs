//! Starting, being ready, and what the command line takes.

use std::time::Duration;

use clap::Parser;
use neuron_extender::{Arguments, Config, serve};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::support::World;

#[tokio::test]
async fn health_is_answered() {
    let world = World::with_nodes(&[]).await;
    assert_eq!(world.get("/healthz").await, (200, "ok".to_owned()));
    assert_eq!(world.get("/readyz").await, (200, "ok".to_owned()));
}

#[tokio::test]
async fn a_catalog_file_that_cannot_be_used_is_named() {
    let world = World::with_nodes(&[]).await;
    let config = Config { catalog: Some("/nowhere/catalog.json".into()), ..Config::default() };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let error = serve(config, world.client.clone(), listener, CancellationToken::new()).await.unwrap_err();
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
