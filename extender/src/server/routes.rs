//! The HTTP surface: which path answers what. Called by [`crate::serve`].
//!
//! kube-scheduler reads a body only on status 200, so every failure is a 200 whose `Error` says why. Only a
//! call without the client certificate that it needs is a 403: it is no scheduler's.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};
use axum::{Json, Router};
use futures::FutureExt as _;
use runtime::{LastCall, reached};
use serde::Deserialize;
use tracing::{Instrument as _, Span, error, info_span, warn};

use super::bodies::{Bodies, Received};
use super::tls::Peer;
use super::untaken::{answer_in, counted, enlarge};
use crate::index::{Cluster, Index};
use crate::leadership::{Leadership, NotLeading};
use crate::metrics::{Metrics, Verb};
use crate::verbs::bind::{BindError, Binder};
use crate::verbs::{self, Filter, PreemptError, Prioritize};
use crate::wire::{BindResult, BodyError, FilterArgs, FilterResult, scores_to_json};

/// Where AWS' extension serves its calls; manifests in the field name it.
pub(crate) const PREFIX: &str = "/apis/neuron-scheduler/v1/schedule";

/// What metrics call the result of a call that could not be answered.
const FAILED: &str = "failed";

/// What the handlers share. Each call gets it as one, for it has a client of the API server and much else to be cloned.
pub(crate) struct Shared {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) filter: Filter,
    pub(crate) prioritize: Prioritize,
    pub(crate) binder: Binder,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) leadership: Arc<Leadership>,
    pub(crate) bodies: Bodies,
}

/// An answer, and what metrics call it.
type Answer = (Response, &'static str);

/// The extender's routes. `certificate_required`: the verbs need a client certificate; if they do not, the log says so.
pub(crate) fn router(shared: Shared, certificate_required: bool) -> Router {
    let mut verbs = Router::new()
        .route("/filter", verb(Verb::Filter))
        .route("/prioritize", verb(Verb::Prioritize))
        .route("/preempt", verb(Verb::Preempt))
        .route("/bind", verb(Verb::Bind));
    shared.metrics.verbs_are_open(!certificate_required);
    if certificate_required {
        verbs = verbs.route_layer(from_fn(require_certificate));
    } else {
        warn!(
            "the verbs are open: every pod that reaches the port may have pods placed; ask for certificates (--client-ca, \
             deploy/https-extender-patch.yml) or keep others away (deploy/k8s-neuron-scheduler-networkpolicy.yml)"
        );
    }
    verbs
        .clone()
        .nest(PREFIX, verbs)
        .route("/healthz", get(|| async { "ok" }))
        .route("/readyz", get(ready))
        .route("/metrics", get(prometheus))
        .with_state(Arc::new(shared))
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

async fn ready(State(shared): State<Arc<Shared>>) -> (StatusCode, String) {
    if shared.binder.is_stopping() {
        (StatusCode::SERVICE_UNAVAILABLE, "the extender is stopping".to_owned())
    } else if let Some((watch, silent)) = shared.cluster.read(Index::too_long_silent) {
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

async fn prometheus(State(shared): State<Arc<Shared>>) -> Response {
    let Some(place) = shared.bodies.place_for_metrics().await else {
        let why = "others take the metrics that they have asked for too slowly; try again";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let mut now = shared.cluster.now();
    now.places = shared.leadership.places();
    counted(place, runtime::metrics::answer(shared.metrics.text(now)).into_response())
}

fn verb(verb: Verb) -> MethodRouter<Arc<Shared>> {
    post(move |State(shared): State<Arc<Shared>>, request: Request| async move {
        let client = request.extensions().get::<Peer>().and_then(|peer| peer.name.clone());
        let span = client.map_or_else(Span::none, |client| info_span!("call", client = &*client));
        call(verb, &shared, request).instrument(span).await
    })
}

/// Receives a call's body and answers it.
async fn call(verb: Verb, shared: &Shared, request: Request) -> Response {
    let received = shared.bodies.receive(verb, request.into_body()).await;
    let call = shared.metrics.call(verb);
    let (answer, result) = match received {
        Ok(mut received) => {
            let (answer, result) = caught(verb, answer(verb, shared, &mut received)).await;
            match answer_in(received.place, verb, answer) {
                Ok(answer) => (answer, result),
                Err(error) => not_answered(verb, error),
            }
        }
        Err(error) => not_answered(verb, error),
    };
    call.ended(result);
    lead_elsewhere(&shared.leadership, answer)
}

/// Has the connection end with this answer where another replica leads. kube-scheduler keeps its connections, and one that it opened while
/// the Service still led here would bring every later call here, too.
fn lead_elsewhere(leadership: &Leadership, mut answer: Response) -> Response {
    if !leadership.leads() {
        reached("extender: a connection ended as another replica leads");
        answer.extensions_mut().insert(LastCall);
    }
    answer
}

/// What the future answers, or, if it panics, that it did: kube-scheduler is told, and the extender goes on.
async fn caught(verb: Verb, answer: impl Future<Output = Answer>) -> Answer {
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(|_| {
        reached("extender: a call panicked");
        // The text of the panic stands before it on stderr.
        error!(verb = verb.name(), "a call panicked; please report it with the lines before this one");
        let error = format!("the Neuron scheduler failed at this /{}; its log says where", verb.name());
        (failure(verb, StatusCode::INTERNAL_SERVER_ERROR, error), "panicked")
    })
}

async fn answer(verb: Verb, shared: &Shared, question: &mut Received) -> Answer {
    match verb {
        Verb::Filter => filter(shared, question).await,
        Verb::Prioritize => prioritize(shared, &question.bytes).await,
        Verb::Preempt => preempt(shared, &question.bytes).await,
        Verb::Bind => bind(shared, &question.bytes).await,
    }
}

async fn filter(shared: &Shared, question: &mut Received) -> Answer {
    let args = match parse::<FilterArgs<'_>>(Verb::Filter, &question.bytes) {
        Ok(args) => args,
        Err(error) => return not_answered(Verb::Filter, error),
    };
    let has_pod = args.pod.is_some();
    let answer = shared.filter.filter(args).await;
    let result = match &answer {
        _ if !has_pod => FAILED,
        answer if !answer.error.is_empty() => "unknown",
        answer if answer.fitting() == 0 => "refused",
        _ => "fits",
    };
    // Before it is written: a text of a few hundred bytes stands in it for each of 100,000 nodes.
    if let Err(error) = enlarge(&mut question.place, Verb::Filter, answer.length()) {
        return not_answered(Verb::Filter, error);
    }
    match answer.to_json(&question.bytes) {
        Ok(answer) => (json(answer), result),
        Err(error) => (failure(Verb::Filter, StatusCode::INTERNAL_SERVER_ERROR, error.to_string()), FAILED),
    }
}

/// An answer that is JSON already.
fn json(text: Vec<u8>) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], text).into_response()
}

async fn prioritize(shared: &Shared, body: &[u8]) -> Answer {
    let scores = match parse(Verb::Prioritize, body) {
        Ok(args) => shared.prioritize.prioritize(args).await,
        Err(error) => Err(error),
    };
    match scores {
        Ok(scores) => (json(scores_to_json(&scores)), "answered"),
        Err(error) => failed(Verb::Prioritize, &error),
    }
}

async fn preempt(shared: &Shared, body: &[u8]) -> Answer {
    let args = match parse(Verb::Preempt, body) {
        Ok(args) => args,
        Err(error) => return not_answered(Verb::Preempt, error),
    };
    match verbs::preempt(&shared.cluster, &shared.metrics, args).await {
        Ok(answer) if answer.meta_victims.is_empty() => (Json(answer).into_response(), "no_node"),
        Ok(answer) => (Json(answer).into_response(), "answered"),
        Err(PreemptError::Body(error)) => failed(Verb::Preempt, &error),
        Err(PreemptError::Indeterminate(error)) => {
            (failure(Verb::Preempt, StatusCode::SERVICE_UNAVAILABLE, error.to_string()), FAILED)
        }
    }
}

async fn bind(shared: &Shared, body: &[u8]) -> Answer {
    let args = match parse(Verb::Bind, body) {
        Ok(args) => args,
        Err(error) => return not_answered(Verb::Bind, error),
    };
    let bound = shared.binder.bind(args).await;
    let is_misdirected = matches!(&bound, Err(BindError::NotLeading(why)) if *why != NotLeading::Starting);
    let (error, result) = match bound {
        Ok(bound) => (String::new(), bound.name()),
        Err(error) => (error.to_string(), error.name()),
    };
    let mut answer = Json(BindResult { error }).into_response();
    if is_misdirected {
        // kube-scheduler's next connection goes to the leader. HTTP/2 has no such header, and hyper leaves it out there.
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    (answer, result)
}

fn parse<'a, T: Deserialize<'a>>(verb: Verb, body: &'a [u8]) -> Result<T, BodyError> {
    serde_json::from_slice(body).map_err(|source| {
        reached("extender: call not understood");
        BodyError::NotUnderstood { verb: verb.name(), source }
    })
}

/// The answer to a body that could not be had or read, which the log tells, too.
fn not_answered(verb: Verb, error: BodyError) -> Answer {
    warn!(reason = error.to_string(), "call not answered");
    failed(verb, &error)
}

fn failed(verb: Verb, error: &BodyError) -> Answer {
    let status = match error {
        BodyError::NoRoom { .. } | BodyError::NoRoomForAnswer { .. } => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::BAD_REQUEST,
    };
    (failure(verb, status, error.to_string()), FAILED)
}

/// An error in the form that the verb has. kube-scheduler reads scores from a bare array and victims from a map, in which there is
/// no place for one: it logs the status and does without scores, or ends nobody and tries again.
fn failure(verb: Verb, status: StatusCode, error: String) -> Response {
    match verb {
        Verb::Filter => Json(FilterResult::failure(error)).into_response(),
        Verb::Prioritize | Verb::Preempt => (status, error).into_response(),
        Verb::Bind => Json(BindResult { error }).into_response(),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case(
        Verb::Filter,
        200,
        "{\"Nodes\":null,\"NodeNames\":null,\"FailedNodes\":{},\
        \"FailedAndUnresolvableNodes\":{},\"Error\":\"the Neuron scheduler failed at this /filter; its log says where\"}"
    )]
    #[case(Verb::Prioritize, 500, "the Neuron scheduler failed at this /prioritize; its log says where")]
    #[case(Verb::Preempt, 500, "the Neuron scheduler failed at this /preempt; its log says where")]
    #[case(Verb::Bind, 200, "{\"Error\":\"the Neuron scheduler failed at this /bind; its log says where\"}")]
    #[tokio::test]
    async fn a_panic_is_an_error_in_the_form_of_the_verb(
        #[case] verb: Verb,
        #[case] status: u16,
        #[case] expected: &str,
    ) {
        let (answer, result) = caught(verb, async { panic!("as a test wants") }).await;
        assert_eq!((answer.status().as_u16(), result), (status, "panicked"));
        let text = answer.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(text, expected.as_bytes());
    }
}
