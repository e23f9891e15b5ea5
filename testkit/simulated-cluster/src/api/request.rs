//! One request on its way to the API server and back.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{Method, Request, Response, StatusCode, header};
use serde_json::json;
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};
use tower::{BoxError, ServiceExt as _};

use super::watch_body::watch_body;
use super::{Way, Whose};

/// How long a kernel sends again what nobody acknowledges, before it gives a connection up (tcp_retries2).
const GIVEN_UP: Duration = Duration::from_secs(924);

/// How long a kernel sends again what a process has sent that does not wait any more: eight times (tcp_orphan_retries), first
/// after 200 ms, then twice as late each time.
const ORPHANED: Duration = Duration::from_secs(102);
/// How many writes ago the state is at most that a list shows by chance which asks for no newer one.
const STALE: f64 = 200.0;
/// Kinds of faults that one request may meet.
const KINDS: usize = 6;

/// What came of a request, with the fault that it has met.
type Outcome = Result<(Response<Body>, Option<Fault>), BoxError>;

/// A request under way.
pub(super) struct Call {
    way: Way,
    request: Request<Body>,
    what: What,
}

/// What the request is, as its faults go by it.
struct What {
    text: String,
    is_watch: bool,
    is_write: bool,
    /// Whether it is a list or watch that any state will do for.
    takes_any: bool,
}

/// What goes wrong with a request.
enum Fault {
    /// It is answered without being carried out.
    Answer(StatusCode, &'static str),
    /// The connection breaks before it is carried out.
    Refused,
    /// It is carried out, and the connection breaks.
    Lost,
    /// It is carried out, and answered as if that had taken too long.
    Timeout,
    /// It shows the state of so many writes ago.
    Stale(u64),
}

impl Call {
    pub(super) fn new(way: Way, request: Request<Body>) -> Self {
        let uri = request.uri();
        let path = uri.path_and_query().map_or_else(|| uri.path(), http::uri::PathAndQuery::as_str);
        let is_watch = uri.query().is_some_and(|query| query.contains("watch=true"));
        let is_write = request.method() != Method::GET;
        let takes_any =
            uri.query().is_some_and(|query| query.split('&').any(|one| one == "resourceVersion=0"));
        let what = What { text: format!("{} {path}", request.method()), is_watch, is_write, takes_any };
        Self { way, request, what }
    }

    pub(super) async fn answer(self) -> Result<Response<Body>, BoxError> {
        let mut resets = self.way.api.conditions.resets(self.way.place);
        resets.mark_unchanged();
        tokio::select! {
            biased;
            _ = resets.changed() => Err(reset()),
            answer = timeout(GIVEN_UP, self.pass()) => answer.unwrap_or_else(|_| Err(broken("Connection timed out"))),
        }
    }

    async fn pass(self) -> Result<Response<Body>, BoxError> {
        let [_, back] = self.way.links.clone();
        let (way, is_watch) = (self.way.clone(), self.what.is_watch);
        let (answer, fault) = if self.what.is_write {
            // Leases are renewed at rest too.
            if !self.what.text.contains("/leases") {
                way.api.conditions.wrote(&way.part);
            }
            self.sent().await?
        } else {
            // So is one looked at that another holds.
            if !self.what.text.contains("/leases/") {
                way.api.conditions.read(&way.part);
            }
            self.way.links[0].pass().await;
            self.arrives().await?
        };
        match fault {
            Some(Fault::Lost) => return Err(reset()),
            Some(Fault::Timeout) => {
                back.pass().await;
                return Ok(refusal(StatusCode::GATEWAY_TIMEOUT, "Timeout"));
            }
            _ => back.pass().await,
        }
        if is_watch && answer.status() == StatusCode::OK {
            return Ok(answer.map(|body| watch_body(&way, body, back)));
        }
        Ok(answer)
    }

    /// Hands it to the kernel, which sends it whatever becomes of its process: one that gave up or was killed meanwhile may find
    /// later that it was carried out.
    async fn sent(self) -> Outcome {
        let (mut answer, answered) = oneshot::channel();
        let harness = self.way.api.harness.system();
        let mut resets = self.way.api.conditions.resets(self.way.place);
        resets.mark_unchanged();
        let on_its_way = async move {
            let there = Arc::clone(&self.way.links[0]);
            tokio::select! {
                biased;
                _ = resets.changed() => return,
                () = orphaned(&mut answer) => return,
                () = there.pass() => {}
            }
            let watcher = Arc::clone(&self.way.api.watcher);
            let late_binding = self.what.bound_pod().filter(|_| answer.is_closed());
            if answer.is_closed() {
                self.way.api.conditions.met("request late");
                self.way.event(&self.what, "arrives after its sender has given up");
            }
            watcher.state().truth.late_bindings.extend(late_binding.clone());
            let outcome = self.arrives().await;
            if let Some(pod) = late_binding {
                watcher.state().truth.late_bindings.remove(&pod);
            }
            // Nobody may wait for it any more.
            drop(answer.send(outcome));
        };
        drop(harness.spawn(on_its_way));
        answered.await.unwrap_or_else(|_| Err(reset()))
    }

    /// It has reached the API server.
    async fn arrives(self) -> Outcome {
        let Self { way, request, what } = self;
        let fault = what.fault(&way);
        let answer = match fault {
            Some(Fault::Refused) => {
                way.event(&what, "connection broken, not carried out");
                return Err(reset());
            }
            Some(Fault::Answer(code, reason)) => refusal(code, reason),
            Some(Fault::Stale(writes)) => {
                way.event(&what, "shown an older state");
                carry_out(&way.api.api.lagging_router(writes), request).await
            }
            _ => carry_out(&way.api.routes, request).await,
        };
        way.event(&what, answer.status().as_str());
        if let Some(Fault::Lost) = fault {
            way.event(&what, "answer lost");
        }
        Ok((answer, fault))
    }
}

/// Returns when the kernel gives up what a process that no longer waits has sent.
async fn orphaned(answer: &mut oneshot::Sender<Outcome>) {
    answer.closed().await;
    sleep(ORPHANED).await;
}

impl What {
    /// The pod that a Binding is for, as `namespace/name`; none if it is no Binding.
    fn bound_pod(&self) -> Option<String> {
        let path = self.text.strip_prefix("POST /api/v1/namespaces/")?.split('?').next()?;
        let (namespace, name) = path.strip_suffix("/binding")?.split_once("/pods/")?;
        Some(format!("{namespace}/{name}"))
    }

    /// What goes wrong with it, drawn by the rates of now.
    fn fault(&self, way: &Way) -> Option<Fault> {
        let conditions = &way.api.conditions;
        let rates = conditions.rates(way.whose);
        let named = |of_suite, of_cluster| match way.whose {
            Whose::Suite => of_suite,
            Whose::Cluster => of_cluster,
        };
        // Each kind is drawn each time, so that a plan without one kind is the same otherwise.
        let drawn: [f64; KINDS] = {
            let mut draws = way.draws();
            std::array::from_fn(|_| draws.f64())
        };
        let mut drawn = drawn.into_iter();
        let mut happens = |rate: f64, name| {
            let happens = drawn.next().is_some_and(|drawn| drawn < rate);
            if happens {
                conditions.met(name);
            }
            happens
        };
        if happens(rates.refused, named("request broken", "cluster request broken")) {
            return Some(Fault::Refused);
        }
        if happens(rates.too_many, named("429", "cluster 429")) {
            return Some(Fault::Answer(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests"));
        }
        if happens(rates.internal, named("500", "cluster 500")) {
            return Some(Fault::Answer(StatusCode::INTERNAL_SERVER_ERROR, "InternalError"));
        }
        if happens(rates.lost, named("answer lost", "cluster answer lost")) {
            return Some(Fault::Lost);
        }
        if self.is_write {
            if happens(rates.conflict, named("409", "cluster 409")) {
                return Some(Fault::Answer(StatusCode::CONFLICT, "Conflict"));
            }
            return happens(rates.timeout, named("504", "cluster 504")).then_some(Fault::Timeout);
        }
        if happens(rates.gone, named("410", "cluster 410")) {
            return Some(Fault::Answer(StatusCode::GONE, "Expired"));
        }
        let (behind, stale) = (conditions.behind(way.place), drawn.next().unwrap_or_default());
        let behind =
            if stale < rates.stale { behind.max((STALE * stale / rates.stale) as u64 + 1) } else { behind };
        if !self.takes_any || behind == 0 {
            return None;
        }
        conditions.met("stale list");
        Some(Fault::Stale(behind))
    }
}

impl Way {
    fn event(&self, what: &What, answer: &str) {
        let (simulation, words) = (&self.api.simulation, format_args!("{} -> {answer}", what.text));
        // A heartbeat that arrives is no news, nor is a watch that is taken up.
        let is_routine = (what.is_watch || what.text.contains("/kube-node-lease/")) && answer == "200";
        if is_routine { simulation.routine(&self.part, words) } else { simulation.event(&self.part, words) }
    }
}

async fn carry_out(routes: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(answer) = routes.clone().oneshot(request).await;
    answer
}

fn refusal(code: StatusCode, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": format!("the simulated API server answers {code}"), "reason": reason, "code": code.as_u16(),
    });
    let mut answer = Response::new(Body::from(status.to_string()));
    *answer.status_mut() = code;
    let json = http::HeaderValue::from_static("application/json");
    answer.headers_mut().insert(header::CONTENT_TYPE, json);
    answer
}

fn reset() -> BoxError {
    broken("Connection reset by peer")
}

pub(super) fn broken(why: &str) -> BoxError {
    Box::new(io::Error::new(io::ErrorKind::ConnectionReset, why.to_owned()))
}
