//! How one request reaches an extender: over HTTP, or as a call of a router in this process.

use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioTimer;
use runtime::System;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;

use super::connector::Connector;
use super::error::{ExtenderError, go_cause};
use crate::scheduler::config::ExtenderServer;

/// kube-scheduler's DefaultExtenderTimeout.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);

/// An extender's address, with its connections or its router.
pub(super) struct Transport {
    url: String,
    server: Server,
    timeout: Duration,
}

enum Server {
    Http(Box<Client<Connector, Full<Bytes>>>),
    InProcess(Router),
}

impl Transport {
    /// Calls take at most `timeout`; zero means kube-scheduler's default.
    pub(super) fn new(system: &System, server: &ExtenderServer, timeout: Duration) -> Self {
        let timeout = if timeout.is_zero() { DEFAULT_TIMEOUT } else { timeout };
        match server {
            ExtenderServer::Url(url) => {
                let mut http = Client::builder(system.executor());
                // Without a timer of its own the pool reads the real clock.
                let http = http.pool_timer(TokioTimer::new()).build(Connector::new(system));
                Self { url: url.clone(), server: Server::Http(Box::new(http)), timeout }
            }
            ExtenderServer::Router(router) => {
                // A host that resolves nowhere: it only stands in error texts.
                Self { url: "http://in-process".into(), server: Server::InProcess(router.clone()), timeout }
            }
        }
    }

    /// The address without the verb.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// The first JSON value of the answer to `POST {url}/{verb}`.
    pub(super) async fn post(&self, verb: &str, body: &impl Serialize) -> Result<Value, ExtenderError> {
        let deadline = Instant::now() + self.timeout;
        let url = format!("{}/{verb}", self.url.trim_end_matches('/'));
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::USER_AGENT, "Go-http-client/1.1")
            .body(Full::new(Bytes::from(serde_json::to_vec(body)?)))
            .map_err(|error| ExtenderError::Transport { url: url.clone(), cause: error.to_string() })?;
        let response = timeout_at(deadline, self.send(request, &url))
            .await
            .map_err(|_| ExtenderError::NoHeaders { url: url.clone() })??;
        if response.status() != StatusCode::OK {
            let code = response.status().as_u16();
            return Err(ExtenderError::Status { verb: verb.to_owned(), url, code });
        }
        let body = timeout_at(deadline, response.into_body().collect())
            .await
            .map_err(|_| ExtenderError::NoBody)?
            .map_err(|_| ExtenderError::Answered("unexpected EOF".into()))?
            .to_bytes();
        // Go's decoder reads the first value of the body and ignores the rest.
        let mut values = serde_json::Deserializer::from_slice(&body).into_iter::<Value>();
        values.next().unwrap_or_else(|| Err(serde::de::Error::custom("EOF"))).map_err(ExtenderError::from)
    }

    async fn send(&self, request: Request<Full<Bytes>>, url: &str) -> Result<Response<Body>, ExtenderError> {
        match &self.server {
            Server::Http(http) => match http.request(request).await {
                Ok(response) => Ok(response.map(Body::new)),
                Err(error) => {
                    Err(ExtenderError::Transport { url: url.to_owned(), cause: go_cause(&error, url) })
                }
            },
            Server::InProcess(router) => {
                let Ok(response) = router.clone().oneshot(request.map(Body::new)).await;
                Ok(response)
            }
        }
    }
}
