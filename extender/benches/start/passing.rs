//! An extender that only passes a Binding on, as a process of its own: what the second connection of a bind costs, whatever an extender
//! does. Compared with ours by [`super::binds`].

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use axum::extract::State;
use axum::routing::post;
use axum::{Json, Router};
use kube::Client;
use runtime::{Protocol, Server, System};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::scheduler::post_binding;
use crate::ways::{client_of, listener};

/// The extender, until it is killed. It says where it listens.
pub(crate) fn run(api: &str) -> ExitCode {
    runtime::log(runtime::LogFormat::Text);
    runtime::run_program("passing extender", async {
        let client = client_of(api).await?;
        let system = System::real();
        let listener = listener(&system)?;
        let routes = Router::new().route("/bind", post(bind)).with_state(client);
        let server = Server::new(system, Protocol::Http1, routes, Duration::ZERO).exposed();
        server.run(listener, CancellationToken::new()).await;
        Ok(())
    })
}

async fn bind(State(client): State<Client>, Json(args): Json<Value>) -> Json<Value> {
    let error = pass_on(&client, &args).await.err().map(|error| format!("{error:#}")).unwrap_or_default();
    Json(json!({"Error": error}))
}

async fn pass_on(client: &Client, args: &Value) -> anyhow::Result<()> {
    let text = |name: &str| args[name].as_str().with_context(|| format!("a bind without {name}"));
    post_binding(client, text("PodName")?, text("PodUID")?).await
}
