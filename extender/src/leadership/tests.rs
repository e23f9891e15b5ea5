//! Elections against an API server in memory. Time stands still but for what is waited for.

use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use axum::body::Body;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::{Method, Request, Response};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use neuron_core::names::LEADER_LABEL;
use rstest::rstest;
use runtime::System;
use serde_json::json;
use tokio::time::{advance, sleep, timeout};
use tower::ServiceExt as _;

use super::*;

mod edited;

const LEASE: Duration = Duration::from_secs(15);

fn settings(pod: &str) -> LeaderElection {
    let (namespace, lease) = ("kube-system".to_owned(), "k8s-neuron-scheduler".to_owned());
    LeaderElection { namespace, lease, lease_duration: LEASE, pod: pod.to_owned(), labels_pod: true }
}

/// A replica: its part in the election, and what it may do.
fn replica(api: &ApiServer, pod: &str) -> (Election, Arc<Leadership>) {
    let leadership = Arc::new(Leadership::elected());
    let election = Election::new(&System::real(), api.client(), settings(pod), leadership.clone(), || true);
    (election, leadership)
}

/// A client of which a call is answered by this, where it gives an answer, in place of the API server.
fn client_with<F>(api: &ApiServer, answer: F) -> Client
where
    F: Fn(&Request<kube::client::Body>) -> Option<BoxFuture<'static, Response<Body>>>
        + Clone
        + Send
        + 'static,
{
    let router = api.router();
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (router, answer) = (router.clone(), answer(&request));
        async move {
            match answer {
                Some(answer) => Ok::<_, tower::BoxError>(answer.await),
                None => Ok(router.oneshot(request).await?),
            }
        }
    });
    Client::new(service, "default")
}

fn lease_of(api: &ApiServer) -> Api<Lease> {
    Api::namespaced(api.client(), "kube-system")
}

async fn patch_lease(api: &ApiServer, patch: serde_json::Value) {
    let patch = Patch::Merge(patch);
    lease_of(api).patch("k8s-neuron-scheduler", &PatchParams::default(), &patch).await.unwrap();
}

async fn delete_lease(api: &ApiServer) {
    lease_of(api).delete("k8s-neuron-scheduler", &DeleteParams::default()).await.unwrap();
}

fn leads(leadership: &Leadership) -> bool {
    assert_eq!(leadership.leads(), !matches!(leadership.places_until(), Err(NotLeading::Standby { .. })));
    leadership.leads()
}

#[tokio::test(start_paused = true)]
async fn one_leads_as_long_as_it_renews_the_lease() {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    for _ in 0..20 {
        let pause = a.turn().await;
        b.turn().await;
        assert!(leads(&a_leads) && !leads(&b_leads));
        let told = b_leads.places_until().unwrap_err().to_string();
        assert!(told.contains("does not place pods, a_"), "{told}");
        advance(pause).await;
    }
    let spec = lease_of(&api).get("k8s-neuron-scheduler").await.unwrap().spec.unwrap();
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(15), Some(0)));
    assert!(spec.renew_time.unwrap() >= spec.acquire_time.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_hears_nothing_leaves_the_lease_to_another_one() {
    let api = ApiServer::new(Clock::new());
    let (hears, (mut b, b_leads)) = (Arc::new(AtomicBool::new(true)), replica(&api, "b"));
    let a_leads = Arc::new(Leadership::elected());
    let ears = hears.clone();
    let hears_now = move || ears.load(Ordering::SeqCst);
    let mut a = Election::new(&System::real(), api.client(), settings("a"), a_leads.clone(), hears_now);
    a.turn().await;
    assert!(leads(&a_leads));
    hears.store(false, Ordering::SeqCst);
    let began = Instant::now();
    while !leads(&b_leads) {
        assert!(began.elapsed() < LEASE * 2, "nobody takes over");
        advance(a.turn().await).await;
        b.turn().await;
        assert!(!(leads(&a_leads) && leads(&b_leads)), "two lead");
    }
    hears.store(true, Ordering::SeqCst);
    a.turn().await;
    a.turn().await;
    assert!(!leads(&a_leads) && leads(&b_leads));
}

/// Whatever the time since its last renewal at which the other one looks next, and however seldom it looks.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_leader_that_renews_no_more_has_stopped_before_another_begins(
    #[values(100, 700, 1900)] period: u64,
) {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    let renewed = Instant::now();
    while !leads(&b_leads) {
        assert!(renewed.elapsed() < LEASE * 2, "nobody takes over");
        advance(Duration::from_millis(period)).await;
        b.turn().await;
        assert!(!(leads(&a_leads) && leads(&b_leads)), "two lead");
    }
    assert!(renewed.elapsed() >= LEASE, "it took over after {:?}", renewed.elapsed());
    // It goes on as if nothing had been: it must see first that another one leads.
    a.turn().await;
    assert!(!leads(&a_leads) && leads(&b_leads));
    a.turn().await;
    assert!(!leads(&a_leads) && leads(&b_leads));
}

#[tokio::test(start_paused = true)]
async fn what_a_lease_says_of_times_does_not_count() {
    let api = ApiServer::new(Clock::new());
    let lease = json!({
        "metadata": {"name": "k8s-neuron-scheduler"},
        "spec": {"holderIdentity": "c", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"}
    });
    lease_of(&api).create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
    let (mut a, a_leads) = replica(&api, "a");
    a.turn().await;
    advance(LEASE - Duration::from_millis(1)).await;
    a.turn().await;
    assert!(!leads(&a_leads), "its holder's clock may be wrong");
    advance(Duration::from_millis(1)).await;
    a.turn().await;
    assert!(leads(&a_leads));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_at_once() {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    b.turn().await;
    a.step_down().await;
    assert!(!leads(&a_leads));
    b.turn().await;
    assert!(leads(&b_leads));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_given_back_also_where_a_renewal_was_cut_off() {
    let api = ApiServer::new(Clock::new());
    let ((mut a, _), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    b.turn().await;
    // As by a renewal that was carried out, of which nobody heard.
    patch_lease(&api, json!({"spec": {"renewTime": "2026-11-29T00:00:00.000000Z"}})).await;
    b.turn().await;
    a.step_down().await;
    b.turn().await;
    assert!(leads(&b_leads));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_another_one_holds_stops_at_its_next_renewal() {
    let api = ApiServer::new(Clock::new());
    let (mut a, a_leads) = replica(&api, "a");
    a.turn().await;
    patch_lease(&api, json!({"spec": {"holderIdentity": "c"}})).await;
    a.turn().await;
    assert_eq!(a_leads.places_until(), Err(NotLeading::Standby { leader: Some("c".to_owned()) }));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_was_changed_and_is_still_held_ends_no_tenure() {
    let api = ApiServer::new(Clock::new());
    let (mut a, a_leads) = replica(&api, "a");
    a.turn().await;
    a_leads.has_listed_now();
    // As by a renewal whose answer was lost.
    patch_lease(&api, json!({"metadata": {"labels": {"seen": "true"}}})).await;
    advance(Duration::from_secs(2)).await;
    a.turn().await;
    assert!(a_leads.places_until().is_ok_and(|until| until == Some(Instant::now() + LEASE * 4 / 5)));
}

#[tokio::test(start_paused = true)]
async fn a_leader_places_nothing_while_it_looks_who_holds_its_lease() {
    let api = ApiServer::new(Clock::new());
    let (hangs, leadership) = (Arc::new(AtomicBool::new(false)), Arc::new(Leadership::elected()));
    let is_hanging = hangs.clone();
    let client = client_with(&api, move |request| {
        let is_read = request.method() == Method::GET;
        (is_read && is_hanging.load(Ordering::SeqCst)).then(|| pending().boxed())
    });
    let mut a = Election::new(&System::real(), client, settings("a"), leadership.clone(), || true);
    a.turn().await;
    leadership.has_listed_now();
    patch_lease(&api, json!({"metadata": {"labels": {"seen": "true"}}})).await;
    hangs.store(true, Ordering::SeqCst);
    let looks = async {
        sleep(Duration::from_secs(1)).await;
        leadership.places_until()
    };
    assert_eq!(tokio::join!(a.turn(), looks).1, Err(NotLeading::InDoubt));
    assert_eq!(leadership.places_by(Instant::now() + LEASE / 8).await, Err(NotLeading::InDoubt));
    hangs.store(false, Ordering::SeqCst);
    a.turn().await;
    assert!(leadership.places_until().is_ok(), "it still holds it");
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_started_again_waits_for_the_one_before() {
    let api = ApiServer::new(Clock::new());
    let (mut before, _) = replica(&api, "a");
    before.turn().await;
    let (mut after, after_leads) = replica(&api, "a");
    after.turn().await;
    assert!(!leads(&after_leads), "a Binding of the one before may be under way");
    advance(LEASE).await;
    after.turn().await;
    assert!(leads(&after_leads));
}

#[tokio::test(start_paused = true)]
async fn a_tenure_begins_anew_after_the_lease_was_over() {
    let api = ApiServer::new(Clock::new());
    let (mut a, a_leads) = replica(&api, "a");
    a.turn().await;
    a_leads.has_listed_now();
    assert!(a_leads.places_until().is_ok_and(|until| until == Some(Instant::now() + LEASE * 4 / 5)));
    advance(LEASE).await;
    assert!(!leads(&a_leads));
    a.turn().await;
    assert_eq!(a_leads.places_until(), Err(NotLeading::TakingOver), "others may have placed pods meanwhile");
}

#[tokio::test(start_paused = true)]
async fn the_leader_has_the_label_and_nobody_else() {
    let api = ApiServer::new(Clock::new());
    let pods: Api<Pod> = Api::namespaced(api.client(), "kube-system");
    for name in ["a", "b"] {
        let pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let labelled = async |name: &str| pods.get(name).await.unwrap().labels().contains_key(LEADER_LABEL);
    let label = |pod: &str| LeaderLabel::new(api.client(), "kube-system", pod.to_owned());
    label("a").take().await;
    assert!(labelled("a").await && !labelled("b").await);
    label("b").take().await;
    assert!(!labelled("a").await && labelled("b").await, "the one before may be stopped");
    label("b").drop_soon().await;
    assert!(!labelled("b").await);
}

/// The policy of `deploy/` lets the extender write on its replicas alone.
#[tokio::test(start_paused = true)]
async fn a_pod_that_is_no_replica_keeps_nobody_from_the_label() {
    let api = ApiServer::new(Clock::new());
    let pods: Api<Pod> = Api::namespaced(api.client(), "kube-system");
    let ours = ("component", "k8s-neuron-scheduler");
    for (name, (key, value), leads) in [("a", ours, false), ("b", ours, true), ("x", ("app", "other"), true)]
    {
        let mut labels = json!({key: value});
        if leads {
            labels[LEADER_LABEL] = json!("true");
        }
        let spec = json!({"containers": [{"name": "c", "image": "i"}]});
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": spec});
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }
    let refused = Arc::new(AtomicBool::new(false));
    let is_refused = refused.clone();
    let client = client_with(&api, move |request| {
        let is_forbidden = request.method() == Method::PATCH && request.uri().path().ends_with("/pods/x");
        is_refused.fetch_or(is_forbidden, Ordering::SeqCst);
        let message = "the extender may not write on pod x, which is none of its replicas";
        let status = json!({"kind": "Status", "status": "Failure", "message": message, "code": 403});
        let refusal = Response::builder().status(403).body(Body::from(status.to_string())).unwrap();
        is_forbidden.then(|| ready(refusal).boxed())
    });
    let label = LeaderLabel::new(client, "kube-system", "a".to_owned());
    assert!(timeout(Duration::from_secs(60), label.take()).await.is_ok(), "the Service has no endpoint");
    let labelled = async |name: &str| pods.get(name).await.unwrap().labels().contains_key(LEADER_LABEL);
    assert!(labelled("a").await && !labelled("b").await && labelled("x").await);
    assert!(!refused.load(Ordering::SeqCst), "it is not asked for what is forbidden");
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_label_somebody_removes_puts_it_again() {
    let api = ApiServer::new(Clock::new());
    let pods: Api<Pod> = Api::namespaced(api.client(), "kube-system");
    let pod = json!({"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let label = LeaderLabel::new(api.client(), "kube-system", "a".to_owned());
    let removed = async {
        sleep(Duration::from_secs(10)).await;
        label.drop_soon().await;
        sleep(Duration::from_secs(30)).await;
    };
    tokio::select! {
        biased;
        () = label.keep() => unreachable!("it has no end"),
        () = removed => {}
    }
    assert!(pods.get("a").await.unwrap().labels().contains_key(LEADER_LABEL), "nobody would find the leader");
}
