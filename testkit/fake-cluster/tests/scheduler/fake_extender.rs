//! Extenders that are small HTTP servers on loopback and answer as a test says.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use fake_cluster::scheduler::ExtenderConfig;
use http::StatusCode;
use serde_json::{Value, json};

use crate::cluster::DEVICE;

/// What an extender of a test answers.
#[derive(Clone)]
pub(crate) enum Answer {
    Json(Value),
    Status(u16),
    Never,
}

/// An extender that records its calls.
#[derive(Clone)]
pub(crate) struct FakeExtender {
    pub(crate) url: String,
    calls: Arc<Mutex<Vec<(String, String)>>>,
}

impl FakeExtender {
    pub(crate) async fn start(answer: impl Fn(&str, &Value) -> Answer + Send + Sync + 'static) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let (answer, log) = (Arc::new(answer), calls.clone());
        let handler = move |Path(verb): Path<String>, body: Bytes| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                log.lock().unwrap().push((verb.clone(), String::from_utf8(body.to_vec()).unwrap()));
                match answer(&verb, &serde_json::from_slice(&body).unwrap()) {
                    Answer::Json(json) => axum::Json(json).into_response(),
                    Answer::Status(code) => StatusCode::from_u16(code).unwrap().into_response(),
                    Answer::Never => std::future::pending::<Response>().await,
                }
            }
        };
        let router = Router::new().route("/{verb}", axum::routing::post(handler));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, calls }
    }

    /// Bodies of the calls of one verb, as they came.
    pub(crate) fn bodies(&self, verb: &str) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| called == verb).map(|(_, body)| body.clone()).collect()
    }

    /// A filter-only extender that is asked about every pod.
    pub(crate) fn filter(&self) -> ExtenderConfig {
        ExtenderConfig::new(&self.url).with_filter("filter")
    }

    /// Filters and prioritizes every pod.
    pub(crate) fn prioritize(&self, weight: i64) -> ExtenderConfig {
        self.filter().with_prioritize("prioritize", weight)
    }

    /// Filters and binds the pods that ask for `DEVICE`.
    pub(crate) fn binder(&self) -> ExtenderConfig {
        self.filter().with_bind("bind").with_managed_resource(DEVICE)
    }
}

/// A filter answer in which the nodes pass for which `why` gives no reason.
pub(crate) fn filter_answer(body: &Value, why: impl Fn(&str) -> Option<&'static str>) -> Answer {
    let names = body["NodeNames"].as_array().unwrap().iter().map(|name| name.as_str().unwrap());
    let (mut passed, mut failed) = (Vec::new(), serde_json::Map::new());
    for name in names {
        match why(name) {
            None => passed.push(name),
            Some(reason) => drop(failed.insert(name.into(), reason.into())),
        }
    }
    Answer::Json(json!({"Nodes": null, "NodeNames": passed, "FailedNodes": failed,
        "FailedAndUnresolvableNodes": null, "Error": ""}))
}
