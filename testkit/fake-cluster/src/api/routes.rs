//! The addresses of the server and which of `verbs` each of them calls.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Query, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::{HeaderMap, header};
use runtime::reached;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::deadline;
use super::error::ApiError;
use super::kinds::table::{self, PODS, Resource};
use super::protobuf::answer_as_asked;
use super::store::{Key, Store};
use super::verbs::delete::{self, DeleteOptions};
use super::verbs::patch::PatchKind;
use super::verbs::selector::Filter;
use super::verbs::update::{self, Part};
use super::verbs::watch::{self, WatchOptions};
use super::verbs::{bind, create, read};

/// The largest request that the real API server takes, in bytes.
const LARGEST_BODY: usize = 3 * 1024 * 1024;

/// What the handlers of one resource share.
#[derive(Clone)]
struct Endpoint {
    store: Arc<Store>,
    resource: &'static Resource,
    /// Ends open watches when the listener shuts down.
    closing: CancellationToken,
    /// How many versions ago the state is that is shown where any will do.
    lag: u64,
}

/// The object or collection that an address names.
#[derive(Debug, Deserialize)]
struct Address {
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

impl Address {
    fn key(&self) -> Key {
        Key::new(self.namespace.clone(), self.name.clone())
    }
}

/// The query parameters that are served, of all requests.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Parameters {
    label_selector: String,
    field_selector: String,
    resource_version: String,
    resource_version_match: String,
    watch: String,
    allow_watch_bookmarks: String,
    send_initial_events: String,
    timeout_seconds: Option<u64>,
    dry_run: String,
    container: Option<String>,
}

impl Parameters {
    /// The resourceVersion, `None` when unset.
    fn version(&self) -> Result<Option<u64>, ApiError> {
        let text = self.resource_version.as_str();
        if text.is_empty() {
            return Ok(None);
        }
        text.parse()
            .map(Some)
            .map_err(|_| ApiError::bad_request(format!("Invalid value: {text:?}: invalid resource version")))
    }

    fn refuse_dry_run(&self) -> Result<(), ApiError> {
        if self.dry_run.is_empty() { Ok(()) } else { Err(ApiError::dry_run()) }
    }
}

/// The whole server as a router. Open watches end when `closing` is cancelled. Where a client takes any state, it is shown the
/// one `lag` versions ago.
pub(crate) fn router(store: &Arc<Store>, closing: &CancellationToken, lag: u64) -> Router {
    let mut router = Router::new();
    for resource in table::all() {
        let endpoint = Endpoint { store: store.clone(), resource, closing: closing.clone(), lag };
        router = router.merge(routes_of(resource).with_state(endpoint));
    }
    router
        .merge(Router::new().route("/version", get(server_version)).with_state(store.clone()))
        .fallback(|| async { ApiError::no_such_path() })
        .method_not_allowed_fallback(|| async { ApiError::method_not_allowed() })
        .layer(DefaultBodyLimit::max(LARGEST_BODY))
        .layer(middleware::from_fn(refuse_unreadable_deadline))
        .layer(middleware::from_fn_with_state(store.clone(), refuse_while_unavailable))
        .layer(middleware::from_fn(answer_as_asked))
}

fn routes_of(resource: &'static Resource) -> Router<Endpoint> {
    let plural = resource.plural;
    let root = if resource.group.is_empty() {
        format!("/api/{}", resource.version)
    } else {
        format!("/apis/{}/{}", resource.group, resource.version)
    };
    let everywhere = format!("{root}/{plural}");
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        everywhere.clone()
    };
    let object = format!("{collection}/{{name}}");

    let mut router = Router::new()
        .route(&collection, get(list_or_watch).post(create_one))
        .route(&object, get(get_one).put(replace).patch(patch).delete(delete_one));
    if resource.namespaced {
        router = router.route(&everywhere, get(list_or_watch));
    }
    if resource.has_status {
        let status = format!("{object}/status");
        router = router.route(&status, get(get_one).put(replace_status).patch(patch_status));
    }
    if resource.collection == PODS.collection {
        router = router
            .route(&format!("{object}/binding"), post(bind_one))
            .route(&format!("{object}/log"), get(log));
    }
    router
}

async fn refuse_while_unavailable(State(store): State<Arc<Store>>, request: Request, next: Next) -> Response {
    if store.available() {
        return next.run(request).await;
    }
    reached("cluster: a request met an outage");
    ApiError::unavailable().into_response()
}

/// Requests take no time here, so that a deadline which can be read is met.
async fn refuse_unreadable_deadline(request: Request, next: Next) -> Response {
    match deadline::of(request.uri()) {
        Ok(_) => next.run(request).await,
        Err(error) => ApiError::bad_request(error.to_string()).into_response(),
    }
}

/// What `kubectl version` reads.
async fn server_version(State(store): State<Arc<Store>>) -> Response {
    read::server_version(store.version())
}

async fn list_or_watch(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    let Endpoint { store, resource, closing, lag } = endpoint;
    let namespace = Some(address.namespace).filter(|namespace| !namespace.is_empty());
    let Parameters { label_selector, field_selector, .. } = &parameters;
    let filter = Filter::parse(resource, namespace, label_selector, field_selector)?;
    let version = parameters.version()?;
    if !is_true(&parameters.watch) {
        let is_exact = parameters.resource_version_match == "Exact";
        let (exact, at_least) = if is_exact { (version, None) } else { (None, version) };
        return read::list(&store, resource, &filter, exact, at_least, lag);
    }
    let options = WatchOptions {
        resource,
        filter,
        from: version,
        lag,
        send_initial_events: is_true(&parameters.send_initial_events),
        bookmarks: is_true(&parameters.allow_watch_bookmarks),
        timeout: parameters.timeout_seconds.filter(|seconds| *seconds > 0).map(Duration::from_secs),
    };
    let lines = watch::open(store, options, closing);
    Ok(([(header::CONTENT_TYPE, "application/json")], Body::from_stream(lines)).into_response())
}

async fn create_one(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    create::create(&endpoint.store, endpoint.resource, &address.namespace, json(&body)?)
}

async fn get_one(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
) -> Result<Response, ApiError> {
    read::get(&endpoint.store, endpoint.resource, &address.key())
}

async fn replace(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    update::replace(&endpoint.store, endpoint.resource, &address.key(), Part::Main, json(&body)?)
}

async fn replace_status(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    update::replace(&endpoint.store, endpoint.resource, &address.key(), Part::Status, json(&body)?)
}

async fn patch(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    let kind = patch_kind(&headers)?;
    update::patch(&endpoint.store, endpoint.resource, &address.key(), Part::Main, kind, json(&body)?)
}

async fn patch_status(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    let kind = patch_kind(&headers)?;
    update::patch(&endpoint.store, endpoint.resource, &address.key(), Part::Status, kind, json(&body)?)
}

async fn delete_one(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    let options = if body.is_empty() {
        DeleteOptions::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?
    };
    delete::delete(&endpoint.store, endpoint.resource, &address.key(), &options)
}

async fn bind_one(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response, ApiError> {
    parameters.refuse_dry_run()?;
    let binding = bind::read(&headers, &body)?;
    bind::bind(&endpoint.store, &address.key(), binding)
}

async fn log(
    State(endpoint): State<Endpoint>,
    Path(address): Path<Address>,
    Query(parameters): Query<Parameters>,
) -> Result<Response, ApiError> {
    read::log(&endpoint.store, &address.key(), parameters.container.as_deref())
}

fn patch_kind(headers: &HeaderMap) -> Result<PatchKind, ApiError> {
    PatchKind::of(headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default())
}

fn json(body: &[u8]) -> Result<Value, ApiError> {
    serde_json::from_slice(body)
        .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))
}

fn is_true(text: &str) -> bool {
    matches!(text, "true" | "1")
}
