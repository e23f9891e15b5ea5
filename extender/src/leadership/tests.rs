//! Elections against an API server in memory. Time stands still but for what is waited for.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use neuron_core::names::LEADER_LABEL;
use rstest::rstest;
use runtime::System;
use serde_json::json;
use tokio::time::{advance, sleep};

use super::*;

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
    let lease: Api<Lease> = Api::namespaced(api.client(), "kube-system");
    let spec = lease.get("k8s-neuron-scheduler").await.unwrap().spec.unwrap();
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
    let leases: Api<Lease> = Api::namespaced(api.client(), "kube-system");
    let lease = json!({
        "metadata": {"name": "k8s-neuron-scheduler"},
        "spec": {"holderIdentity": "c", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00.000000Z"}
    });
    leases.create(&PostParams::default(), &serde_json::from_value(lease).unwrap()).await.unwrap();
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
