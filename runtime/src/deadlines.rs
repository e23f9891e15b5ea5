//! How long the API server may take for a request, and how a request is repeated. Used by the client and by the extender's binds.
//!
//! The API server ends a request whose query parameter `timeout` has passed since it read it (its filter `WithRequestDeadline`): what it has
//! not carried out by then it does not carry out, though nobody can tell it any more that its client is gone.

use std::time::Duration;

use http::{Request, Response, Uri};
use kube::client::Body;
use kube::client::retry::RetryPolicy;
use tokio::time::{Instant, Sleep};
use tower::BoxError;
use tower::retry::Policy;

/// What begins the query parameter, whose value is a duration as Go writes them.
const TIMEOUT: &str = "timeout=";

/// Repeats requests as kube does. The API server may take as much less for a request that is sent again.
#[derive(Clone)]
pub(crate) struct Repeats {
    policy: RetryPolicy,
    /// When the request was sent last.
    sent: Option<Instant>,
}

impl Repeats {
    pub(crate) fn new() -> Self {
        Self { policy: RetryPolicy::server_retry(), sent: None }
    }
}

impl<B> Policy<Request<Body>, Response<B>, BoxError> for Repeats {
    type Future = Sleep;

    fn retry(
        &mut self,
        request: &mut Request<Body>,
        result: &mut Result<Response<B>, BoxError>,
    ) -> Option<Sleep> {
        let pause = self.policy.retry(request, result)?;
        if let (Some(time), Some(sent)) = (time_of(request.uri()), self.sent) {
            end_after(request, time.saturating_sub(pause.deadline().saturating_duration_since(sent)));
        }
        Some(pause)
    }

    fn clone_request(&mut self, request: &Request<Body>) -> Option<Request<Body>> {
        // Right before it is sent, each time.
        self.sent = Some(Instant::now());
        Policy::<_, Response<B>, _>::clone_request(&mut self.policy, request)
    }
}

/// Has the API server end the request so long after it has read it, or when its own limit is over. To be sent at once.
pub fn end_after<B>(request: &mut Request<B>, time: Duration) {
    // What was a path and a query is one with another parameter.
    if let Some(uri) = with_time(request.uri(), time) {
        *request.uri_mut() = uri;
    }
}

fn with_time(uri: &Uri, time: Duration) -> Option<Uri> {
    let others = parameters(uri).filter(|one| !one.is_empty() && !one.starts_with(TIMEOUT));
    // None at all would be as long as the API server likes.
    let time = format!("{TIMEOUT}{}ms", time.as_millis().max(1));
    let query: Vec<&str> = others.chain([&*time]).collect();
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(format!("{}?{}", uri.path(), query.join("&")).parse().ok()?);
    Uri::from_parts(parts).ok()
}

/// The time that [`end_after`] has given the request; none if it has given none.
fn time_of(uri: &Uri) -> Option<Duration> {
    let time = parameters(uri).find_map(|one| one.strip_prefix(TIMEOUT))?;
    Some(Duration::from_millis(time.strip_suffix("ms")?.parse().ok()?))
}

fn parameters(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&')
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use rstest::rstest;
    use tokio::time::sleep;
    use tower::retry::RetryLayer;
    use tower::{Layer as _, ServiceExt as _, service_fn};

    use super::*;

    fn request(uri: &str) -> Request<Body> {
        Request::post(uri).body(Body::empty()).unwrap()
    }

    #[rstest]
    #[case::no_query("/a/b", "/a/b?timeout=1500ms")]
    #[case::as_kube_makes_one("/a/b?", "/a/b?timeout=1500ms")]
    #[case::others_stay("https://host:1/a?b=c&timeout=9ms&d=e", "https://host:1/a?b=c&d=e&timeout=1500ms")]
    fn a_request_says_how_long_it_may_take(#[case] before: &str, #[case] after: &str) {
        let mut request = request(before);
        end_after(&mut request, Duration::from_micros(1_500_900));
        assert_eq!(request.uri(), after);
        end_after(&mut request, Duration::ZERO);
        assert!(request.uri().to_string().ends_with("timeout=1ms"), "none would be without end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_is_sent_again_may_take_what_is_left() {
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let server = {
            let seen = seen.clone();
            service_fn(move |request: Request<Body>| {
                let seen = seen.clone();
                async move {
                    sleep(Duration::from_millis(300)).await;
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.uri().to_string());
                    let code = if seen.len() % 4 == 0 { 201 } else { 429 };
                    Ok::<_, BoxError>(
                        Response::builder().status(code).header("Retry-After", "1").body(()).unwrap(),
                    )
                }
            })
        };
        let client = RetryLayer::new(Repeats::new()).layer(server);
        // Of two requests each has its own time.
        for path in ["/a", "/b"] {
            let mut request = request(path);
            end_after(&mut request, Duration::from_secs(3));
            assert_eq!(client.clone().oneshot(request).await.unwrap().status(), 201);
            sleep(Duration::from_secs(10)).await;
        }
        let each = ["3000ms", "1700ms", "400ms", "1ms"];
        let wanted: Vec<String> =
            ["/a", "/b"].iter().flat_map(|path| each.map(|time| format!("{path}?timeout={time}"))).collect();
        assert_eq!(*seen.lock().unwrap(), wanted);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_without_a_time_is_repeated_as_it_is() {
        let mut repeats = Repeats::new();
        let mut request = request("/a?watch=true");
        let again = Policy::<_, Response<()>, _>::clone_request(&mut repeats, &request);
        assert_eq!(again.unwrap().uri(), request.uri());
        let mut busy = Ok(Response::builder().status(503).body(()).unwrap());
        assert!(repeats.retry(&mut request, &mut busy).is_some());
        assert_eq!(request.uri(), "/a?watch=true");
        assert!(repeats.retry(&mut request, &mut Ok(Response::new(()))).is_none(), "it has succeeded");
    }
}
