//! Bindings that wait at the API server before it carries them out: who sent one may be stopped meanwhile. Asked by
//! [`super::api_host`] for every call.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response};
use runtime::System;
use tokio::sync::oneshot;
use tower::ServiceExt as _;

use crate::cluster::NAMESPACE;
use crate::hold_point::HoldPoint;

/// The Bindings that are held, if any are.
pub(super) struct HeldBindings {
    held: Mutex<Option<Held>>,
    point: HoldPoint,
}

struct Held {
    /// On which they wait and are carried out: not their senders', which may stand still.
    system: System,
    paths: BTreeSet<String>,
}

impl HeldBindings {
    /// None is held.
    pub(super) fn none() -> Self {
        Self { held: Mutex::default(), point: HoldPoint::released() }
    }

    /// Those of these pods wait from now on.
    pub(super) fn hold(&self, system: &System, pods: &[String]) {
        let path = |pod: &String| format!("/api/v1/namespaces/{NAMESPACE}/pods/{pod}/binding");
        let held = Held { system: system.clone(), paths: pods.iter().map(path).collect() };
        *self.held() = Some(held);
        self.point.set_held(true);
    }

    /// Lets those that wait go on, and later ones pass.
    pub(super) fn release(&self) {
        *self.held() = None;
        self.point.set_held(false);
    }

    /// Whether one waits now.
    pub(super) fn is_waited_at(&self) -> bool {
        self.point.is_waited_at()
    }

    /// Where a call of this path waits; none if it does not.
    pub(super) fn holder_of(&self, path: &str) -> Option<System> {
        self.held().as_ref().filter(|held| held.paths.contains(path)).map(|held| held.system.clone())
    }

    /// The answer to a call that is carried out once it is released. One that its sender has given up is not carried out, as by a real
    /// API server, whose request ends with its connection. What it says of its time (`timeout`) begins then: it has stood where no API server
    /// has read it yet.
    pub(super) async fn answer(
        self: Arc<Self>,
        system: System,
        routes: Router,
        request: Request<Body>,
    ) -> Response<Body> {
        let (mut answered, answer) = oneshot::channel();
        drop(system.spawn(async move {
            let carried_out = async {
                self.point.wait().await;
                let Ok(answer) = routes.oneshot(request).await;
                answer
            };
            tokio::select! {
                biased;
                () = answered.closed() => {}
                answer = carried_out => drop(answered.send(answer)),
            }
        }));
        match answer.await {
            Ok(answer) => answer,
            // The simulation ends.
            Err(_) => std::future::pending().await,
        }
    }

    fn held(&self) -> MutexGuard<'_, Option<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use testkit_support::{eventually, within};

    use super::*;

    const LATE: &str = "/api/v1/namespaces/default/pods/late/binding";

    #[tokio::test]
    async fn a_binding_is_carried_out_once_it_is_released_unless_its_sender_has_given_it_up() {
        let carried_out = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&carried_out);
        let routes =
            Router::new().fallback(move || async move { count.fetch_add(1, Ordering::Relaxed).to_string() });
        let (bindings, system) = (Arc::new(HeldBindings::none()), System::real());
        assert!(bindings.holder_of(LATE).is_none());
        bindings.hold(&system, &["late".to_owned()]);
        assert!(bindings.holder_of("/api/v1/namespaces/default/pods/other/binding").is_none());
        let send = || {
            let holder = bindings.holder_of(LATE).unwrap();
            let request = Request::post(LATE).body(Body::empty()).unwrap();
            system.spawn(Arc::clone(&bindings).answer(holder, routes.clone(), request))
        };
        let given_up = send();
        eventually("the first one to wait", async || bindings.is_waited_at().then_some(())).await;
        given_up.abort();
        eventually("it to wait no longer", async || (!bindings.is_waited_at()).then_some(())).await;
        let waits = send();
        eventually("the second one to wait", async || bindings.is_waited_at().then_some(())).await;
        assert_eq!(carried_out.load(Ordering::Relaxed), 0);
        bindings.release();
        within("its answer", waits).await.unwrap();
        assert_eq!(carried_out.load(Ordering::Relaxed), 1);
        assert!(bindings.holder_of(LATE).is_none());
    }
}
