//! Watches of the API server that nothing can hold up for ever. kube's own gives up an open watch that says nothing, but
//! waits without end for the answer to a list or to a watch's beginning, which a server that vanished never gives.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{BoxStream, StreamExt as _, unfold};
use kube::Api;
use kube::core::Resource;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Config, Event};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

/// Longest silence while there is a list to come.
const LISTING: Duration = Duration::from_secs(60);
/// Longest silence after it: longer than kube lets a watch last, 290 s, and waits for its end. A watch of few objects may
/// have nothing to say so long; then what there is is listed again, which costs little.
const WATCHING: Duration = Duration::from_secs(360);

/// An event, or why there is none.
pub type Told<K> = Result<Event<K>, watcher::Error>;

/// What the API server tells of such objects, as [`kube::runtime::watcher()`] tells it, without end; errors are not the
/// end. After too long a silence all begins anew, with [`Event::Init`].
pub fn watch<K>(api: Api<K>, config: Config) -> BoxStream<'static, Told<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let begin = move || watcher::watcher(api.clone(), config.clone()).default_backoff().boxed();
    let first = begin();
    let told = unfold((begin, first, true), |(begin, mut events, mut listing)| async move {
        loop {
            match timeout(if listing { LISTING } else { WATCHING }, events.next()).await {
                Ok(told) => {
                    let told = told?;
                    match told {
                        Ok(Event::Init | Event::InitApply(_)) => listing = true,
                        Ok(Event::InitDone) => listing = false,
                        Ok(Event::Apply(_) | Event::Delete(_)) | Err(_) => {}
                    }
                    return Some((told, (begin, events, listing)));
                }
                Err(_) => {
                    if listing {
                        tracing::warn!("the API server does not answer a list, which is asked for anew");
                    }
                    (events, listing) = (begin(), true);
                }
            }
        }
    });
    told.boxed()
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::pending;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::TryStreamExt as _;
    use k8s_openapi::api::core::v1::Node;
    use kube::Client;
    use kube::client::Body;
    use tokio::time::Instant;
    use tower::service_fn;

    use super::*;

    /// A client of an API server that never answers the calls of these numbers, has no nodes, and says nothing in watches.
    fn server(silent: &'static [usize]) -> (Client, Arc<AtomicUsize>) {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let answer = move |request: http::Request<Body>| {
            let call = counted.fetch_add(1, Ordering::SeqCst);
            async move {
                if silent.contains(&call)
                    || request.uri().query().is_some_and(|query| query.contains("watch"))
                {
                    pending::<()>().await;
                }
                let list =
                    r#"{"apiVersion":"v1","kind":"NodeList","metadata":{"resourceVersion":"7"},"items":[]}"#;
                Ok::<_, Infallible>(http::Response::new(Body::from(list.as_bytes().to_vec())))
            }
        };
        (Client::new(service_fn(answer), "default"), calls)
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_is_never_answered_is_asked_for_again() {
        let (client, _) = server(&[0]);
        let mut events = watch::<Node>(Api::all(client), Config::default());
        let began = Instant::now();
        while !matches!(events.try_next().await.unwrap().unwrap(), Event::InitDone) {}
        assert!(began.elapsed() < LISTING * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_watch_that_never_begins_is_given_up_for_another_list() {
        let (client, calls) = server(&[]);
        let mut events = watch::<Node>(Api::all(client), Config::default());
        let began = Instant::now();
        for _ in 0..3 {
            while !matches!(events.try_next().await.unwrap().unwrap(), Event::InitDone) {}
        }
        assert!(began.elapsed() < WATCHING * 3);
        assert_eq!(calls.load(Ordering::SeqCst), 5, "three lists, and two watches between them");
    }
}
