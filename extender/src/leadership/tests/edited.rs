//! Leases that somebody deletes, empties or writes to.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_deletes_is_over_only_after_its_time() {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    b.turn().await;
    advance(LEASE / 2).await;
    a.turn().await;
    delete_lease(&api).await;
    b.turn().await;
    assert!(leads(&a_leads) && !leads(&b_leads), "its holder may have renewed it right before");
    advance(LEASE - Duration::from_millis(1)).await;
    b.turn().await;
    assert!(!leads(&a_leads) && !leads(&b_leads));
    advance(Duration::from_millis(1)).await;
    b.turn().await;
    assert!(leads(&b_leads));
}

#[rstest]
#[case::without_a_holder(json!({"spec": {"holderIdentity": ""}}))]
#[case::without_a_spec(json!({"spec": null}))]
#[case::with_a_short_duration(json!({"spec": {"leaseDurationSeconds": 1}}))]
#[tokio::test(start_paused = true)]
async fn a_lease_that_somebody_edits_is_over_only_after_its_time(#[case] edit: serde_json::Value) {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    b.turn().await;
    patch_lease(&api, edit).await;
    b.turn().await;
    advance(LEASE - Duration::from_millis(1)).await;
    b.turn().await;
    assert!(!leads(&a_leads) && !leads(&b_leads), "its holder may have placed pods until now");
    advance(Duration::from_millis(1)).await;
    b.turn().await;
    assert!(leads(&b_leads));
}

/// Another replica has taken it in between, and leads.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_given_back_and_is_deleted_is_over_only_after_its_time() {
    let api = ApiServer::new(Clock::new());
    let (mut a, b_leads) = (replica(&api, "a").0, Arc::new(Leadership::elected()));
    let is_late = Arc::new(AtomicBool::new(true));
    let late = is_late.clone();
    let client = client_with(&api, move |request| {
        let is_write = request.method() == Method::PUT && late.load(Ordering::SeqCst);
        let status = json!({"kind": "Status", "code": 409, "reason": "Conflict", "status": "Failure"});
        let conflict = Response::builder().status(409).body(Body::from(status.to_string())).unwrap();
        is_write.then(|| ready(conflict).boxed())
    });
    let mut b = Election::new(&System::real(), client, settings("b"), b_leads.clone(), || true);
    a.turn().await;
    b.turn().await;
    a.step_down().await;
    b.turn().await;
    is_late.store(false, Ordering::SeqCst);
    delete_lease(&api).await;
    b.turn().await;
    assert!(!leads(&b_leads));
    advance(LEASE).await;
    b.turn().await;
    assert!(leads(&b_leads));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_somebody_empties_takes_it_anew_and_lists_first() {
    let api = ApiServer::new(Clock::new());
    let (mut a, a_leads) = replica(&api, "a");
    a.turn().await;
    a_leads.has_listed_now();
    patch_lease(&api, json!({"spec": {"holderIdentity": ""}})).await;
    a.turn().await;
    assert_eq!(
        a_leads.places_until(),
        Err(NotLeading::TakingOver),
        "who has given it back may have led meanwhile"
    );
}

/// Another replica may have led meanwhile, and lead still.
#[rstest]
#[case::emptied(false)]
#[case::deleted(true)]
#[tokio::test(start_paused = true)]
async fn who_led_long_ago_waits_like_anybody_else(#[case] is_deleted: bool) {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    b.turn().await;
    advance(LEASE).await;
    b.turn().await;
    assert!(leads(&b_leads));
    match is_deleted {
        true => delete_lease(&api).await,
        false => patch_lease(&api, json!({"spec": {"holderIdentity": ""}})).await,
    }
    for _ in 0..2 {
        a.turn().await;
        assert!(!leads(&a_leads) && leads(&b_leads));
    }
    advance(LEASE).await;
    a.turn().await;
    assert!(leads(&a_leads));
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_is_deleted_stops_and_takes_it_anew() {
    let api = ApiServer::new(Clock::new());
    let ((mut a, a_leads), (mut b, b_leads)) = (replica(&api, "a"), replica(&api, "b"));
    a.turn().await;
    a_leads.has_listed_now();
    b.turn().await;
    delete_lease(&api).await;
    a.turn().await;
    assert_eq!(a_leads.places_until(), Err(NotLeading::TakingOver), "who has just started may have led");
    b.turn().await;
    assert!(leads(&a_leads) && !leads(&b_leads));
}
