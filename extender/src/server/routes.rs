//! The HTTP surface: which path answers what. Called by [`crate::serve`].
//!
//! kube-scheduler reads a body only on status 200, so every failure is a 200 whose `Error` says why. Only a
//! call without the client certificate that it needs is a 403: it is no scheduler's.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use runtime::reached;
use serde::Deserialize;
use tracing::warn;

use super::tls::Peer;
use crate::index::{Cluster, Index};
use crate::leadership::Leadership;
use crate::metrics::{Metrics, Verb};
use crate::verbs::bind::{BindError, Binder};
use crate::verbs::{self, Filter, PreemptError};
use crate::wire::{BindResult, BodyError, FilterArgs, FilterResult};

/// Where AWS' extension serves its calls; manifests in the field name it.
pub(crate) const PREFIX: &str = "/apis/neuron-scheduler/v1/schedule";

/// Longest body, in bytes: 5,000 full nodes are some 100 MB.
const BODY_LIMIT: usize = 256 << 20;

/// So long a watch may be disconnected before this replica is not ready: what it knows is old by then, while another one may know more.
const SILENT: Duration = Duration::from_secs(30);

/// What the handlers share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) filter: Filter,
    pub(crate) binder: Binder,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) leadership: Arc<Leadership>,
}

/// The extender's routes. `certificate_required`: the verbs need a client certificate.
pub(crate) fn router(shared: Shared, certificate_required: bool) -> Router {
    let mut verbs = Router::new()
        .route("/filter", post(filter))
        .route("/prioritize", post(prioritize))
        .route("/preempt", post(preempt))
        .route("/bind", post(bind));
    if certificate_required {
        verbs = verbs.route_layer(from_fn(require_certificate));
    }
    verbs
        .clone()
        .nest(PREFIX, verbs)
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(prometheus))
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .with_state(shared)
}

/// Refuses calls without a client certificate before their body is read, which may have 256 MB.
async fn require_certificate(request: Request, next: Next) -> Response {
    if request.extensions().get::<Peer>().is_some_and(|peer| peer.has_certificate) {
        return next.run(request).await;
    }
    reached("extender: call without a certificate");
    let error = "the Neuron scheduler takes this call only with a client certificate from its --client-ca; \
                 set certFile and keyFile in tlsConfig of the extender in kube-scheduler's configuration";
    warn!(path = request.uri().path(), reason = "no client certificate", "call refused");
    (StatusCode::FORBIDDEN, Json(BindResult { error: error.to_owned() })).into_response()
}

async fn ready(State(shared): State<Shared>) -> (StatusCode, String) {
    if shared.binder.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "the extender is stopping".to_owned())
    } else if let Some((watch, silent)) =
        shared.cluster.read(longest_silence).filter(|(_, time)| *time > SILENT)
    {
        let why =
            format!("the watch of {watch} has told nothing for {} s; the log says why", silent.as_secs());
        (StatusCode::SERVICE_UNAVAILABLE, why)
    } else if shared.cluster.is_listed() {
        let rules = shared.cluster.read(|index| index.rules().to_owned());
        (StatusCode::OK, format!("ok\nrules: {rules}"))
    } else {
        let why = "the pods and nodes of the cluster have not been listed yet";
        (StatusCode::SERVICE_UNAVAILABLE, why.to_owned())
    }
}

/// The watch that has told nothing for longest, and for how long.
fn longest_silence(index: &Index) -> Option<(&'static str, Duration)> {
    let silences = index.silent_watches().map(|(watch, since)| (watch, since.elapsed()));
    silences.max_by_key(|(_, time)| *time)
}

async fn prometheus(State(shared): State<Shared>) -> impl IntoResponse {
    let mut now = shared.cluster.read(Index::now);
    now.leads = shared.leadership.leads();
    runtime::metrics::answer(shared.metrics.text(now))
}

async fn filter(State(shared): State<Shared>, body: Result<Bytes, BytesRejection>) -> Response {
    let call = shared.metrics.call(Verb::Filter);
    let body = received("filter", body);
    let (answer, result) = match &body {
        Ok(body) => match parse::<FilterArgs<'_>>("filter", body) {
            Ok(args) => {
                let has_pod = args.pod.is_some();
                let answer = shared.filter.filter(args).await;
                let result = match &answer {
                    _ if !has_pod => "failed",
                    answer if !answer.error.is_empty() => "unknown",
                    answer if answer.fitting() == 0 => "refused",
                    _ => "fits",
                };
                (answer, result)
            }
            Err(error) => (FilterResult::failure(error), "failed"),
        },
        Err(error) => (FilterResult::failure(error), "failed"),
    };
    // The answer borrows from the body, so it is written before that goes.
    let answer = Json(answer).into_response();
    call.ended(result);
    answer
}

/// kube-scheduler reads the scores from a bare array, in which there is no place for an error: it logs the status, and goes on
/// without them.
async fn prioritize(State(shared): State<Shared>, body: Result<Bytes, BytesRejection>) -> Response {
    let call = shared.metrics.call(Verb::Prioritize);
    let answer = received("prioritize", body);
    let answer = answer.as_ref().map_err(ToString::to_string).and_then(|body| {
        let args = parse("prioritize", body).map_err(|error| error.to_string())?;
        verbs::prioritize(&shared.cluster, args).map_err(|error| error.to_string())
    });
    let answer = match answer {
        Ok(scores) => Json(scores).into_response(),
        Err(error) => (StatusCode::BAD_REQUEST, error).into_response(),
    };
    call.ended(outcome(&answer));
    answer
}

/// As [`prioritize`]: without an answer kube-scheduler ends nobody, and tries again.
async fn preempt(State(shared): State<Shared>, body: Result<Bytes, BytesRejection>) -> Response {
    let call = shared.metrics.call(Verb::Preempt);
    let body = received("preempt", body);
    let failed = |status: StatusCode, error: String| (status, error).into_response();
    let args = body.as_ref().map_err(ToString::to_string);
    let args = args.and_then(|body| parse("preempt", body).map_err(|error| error.to_string()));
    let answer = match args {
        Err(error) => failed(StatusCode::BAD_REQUEST, error),
        Ok(args) => match verbs::preempt(&shared.cluster, args).await {
            Ok(answer) => Json(answer).into_response(),
            Err(error @ PreemptError::Body(_)) => failed(StatusCode::BAD_REQUEST, error.to_string()),
            Err(error @ PreemptError::Indeterminate(_)) => {
                failed(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
            }
        },
    };
    call.ended(outcome(&answer));
    answer
}

/// What metrics call an answer that has no other results.
fn outcome(answer: &Response) -> &'static str {
    if answer.status().is_success() { "answered" } else { "failed" }
}

async fn bind(State(shared): State<Shared>, body: Result<Bytes, BytesRejection>) -> Response {
    let call = shared.metrics.call(Verb::Bind);
    let mut is_misdirected = false;
    let (error, result) = match received("bind", body).and_then(|body| parse("bind", &body)) {
        Ok(args) => match shared.binder.bind(args).await {
            Ok(bound) => (String::new(), bound.name()),
            Err(error) => {
                is_misdirected = matches!(error, BindError::NotLeading(_));
                (error.to_string(), error.name())
            }
        },
        Err(error) => (error.to_string(), "failed"),
    };
    call.ended(result);
    let mut answer = Json(BindResult { error }).into_response();
    if is_misdirected {
        // kube-scheduler's next connection goes to the leader.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

fn received(verb: &'static str, body: Result<Bytes, BytesRejection>) -> Result<Bytes, BodyError> {
    body.map_err(|rejection| {
        reached("extender: call not received");
        logged(BodyError::NotReceived { verb, reason: rejection.body_text() })
    })
}

fn parse<'a, T: Deserialize<'a>>(verb: &'static str, body: &'a [u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(|source| {
        reached("extender: call not understood");
        logged(BodyError::NotUnderstood { verb, source })
    })
}

fn logged(error: BodyError) -> BodyError {
    warn!(reason = error.to_string(), "call not answered");
    error
}
