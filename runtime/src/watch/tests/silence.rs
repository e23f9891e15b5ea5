//! Watches that begin and then say nothing, and what counts as a sign of life. Against an API server that answers from a script.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// As over a connection that leads nowhere any more, or where something in between begins watches and knows nothing.
#[rstest]
#[tokio::test(start_paused = true)]
async fn a_watch_that_says_nothing_beyond_its_time_begins_again_with_a_list(
    #[values(InJson, InProtobuf)] form: Form,
) {
    let without_end = |frames: &[Vec<u8>]| events(1_000_000, frames);
    let page = |name, version| form.page(&[name], version, "");
    let (asked, told) = follow_timed(
        form,
        vec![
            page("n1", "5"),
            without_end(&[form.frame("ADDED", "n2", "6")]),
            page("n3", "8"),
            without_end(&[]),
            page("n4", "9"),
            without_end(&[]),
            page("n5", "10"),
            events(8, &[form.frame("BOOKMARK", "", "11")]),
            events(ENDS, &[]),
        ],
    )
    .await;
    let wanted = "list n1 listed +n2 disconnected list n3 listed disconnected list n4 listed disconnected \
                  list n5 listed disconnected ";
    assert!(told.starts_with(wanted), "{told}");
    let lists = asked.iter().filter(|(_, uri)| uri.contains("limit=")).map(|(at, _)| at.as_millis());
    let lists: Vec<_> = lists.collect();
    let between: Vec<_> = lists.windows(2).map(|two| two[1] - two[0]).collect();
    // Five seconds beyond its time. Then watches are short, so that a server that lives is believed again soon, and pauses ever longer.
    for (between, range) in between.iter().zip([53_100..=65_300, 13_300..=15_500, 13_600..=15_900]) {
        assert!(range.contains(between), "{between:?}");
    }
    assert_eq!(between.len(), 3);
    let seconds = asked
        .iter()
        .filter_map(|(_, uri)| uri.split_once("timeoutSeconds=")?.1.split('&').next()?.parse::<u32>().ok());
    let is_short: Vec<_> = seconds.map(|seconds| seconds <= 10).collect();
    assert_eq!(is_short, [false, true, true, true, false], "until one has said something");
}

/// Follows an API server that answers lists, and each watch with a head and nothing more, until it is to end them as it is asked to.
async fn follow_quiet_watches(gap: &Gap, ends_them: Arc<AtomicBool>, seconds: u64) -> Vec<String> {
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let query = request.uri().query().unwrap_or_default();
        let lasts = query.split('&').find_map(|one| one.strip_prefix("timeoutSeconds="));
        let body = match lasts.and_then(|seconds| seconds.parse().ok()) {
            None => InJson.page(&["n1"], "5", ""),
            Some(lasts) if ends_them.load(Ordering::SeqCst) => events(lasts, &[]),
            Some(_) => Body::from_stream(stream::pending::<io::Result<Vec<u8>>>()),
        };
        async move { Ok::<_, tower::BoxError>(Response::new(body)) }
    });
    let (client, nodes) = (Client::new(service, "default"), Collection::of::<Node>());
    let mut watched = watch_with_gap::<Node, _>(&System::real(), client, nodes, Json, gap.clone());
    let mut all = Vec::new();
    let follow = async {
        while let Some(event) = watched.next().await {
            all.push(told(event, |node: Node| node.metadata.name.unwrap_or_default()));
        }
    };
    assert!(timeout(Duration::from_secs(seconds), follow).await.is_err(), "a watch has no end");
    all
}

#[tokio::test(start_paused = true)]
async fn that_a_watch_begins_is_no_sign_of_life() {
    let (gap, ends_them) = (Gap::default(), Arc::new(AtomicBool::new(false)));
    let began = Instant::now();
    let looks = async {
        sleep(Duration::from_secs(50)).await;
        assert_eq!(gap.silent_for().unwrap().as_secs(), 50, "since the list");
        assert_eq!(gap.silent_since(), None);
        sleep(Duration::from_secs(250)).await;
        let since = gap.silent_since().expect("no watch has said anything") - began;
        assert!((53..=65).contains(&since.as_secs()), "{since:?}");
        ends_them.store(true, Ordering::SeqCst);
        // What is left of the last one, the pause, and one that ends when it was asked to.
        sleep(Duration::from_secs(15 + 5 + 10 + 1)).await;
        assert_eq!(gap.silent_since(), None);
    };
    tokio::join!(looks, follow_quiet_watches(&gap, ends_them.clone(), 400));
}

#[tokio::test(start_paused = true)]
async fn quiet_watches_that_end_when_they_are_asked_to_are_signs_of_life() {
    let gap = Gap::default();
    let looks = async {
        for _ in 0..300 {
            sleep(Duration::from_secs(1)).await;
            assert_eq!(gap.silent_since(), None);
            assert!(gap.silent_for().unwrap() <= Duration::from_secs(61), "{:?}", gap.silent_for());
        }
    };
    let follow = follow_quiet_watches(&gap, Arc::new(AtomicBool::new(true)), 301);
    let ((), told) = tokio::join!(looks, follow);
    assert_eq!(told, ["list", "n1", "listed"]);
}

/// As by something in between that gives up what is idle.
#[tokio::test(start_paused = true)]
async fn watches_that_break_and_say_nothing_are_silent_in_the_end() {
    let breaks = || {
        let idle = stream::once(async {
            sleep(Duration::from_secs(30)).await;
            Err::<Vec<u8>, _>(io::Error::other("connection reset by peer"))
        });
        Body::from_stream(idle)
    };
    let page = |name| InJson.page(&[name], "5", "");
    let (_, told) = follow(InJson, vec![page("n1"), breaks(), breaks(), breaks(), page("n2")]).await;
    assert!(told.starts_with("list n1 listed disconnected list n2 listed "), "{told}");
}

#[tokio::test(start_paused = true)]
async fn a_bookmark_is_a_sign_of_life_too() {
    // A list, and a watch that tells of nothing but a bookmark, after thirty seconds.
    let bookmark = stream::once(async {
        sleep(Duration::from_secs(30)).await;
        Ok::<_, io::Error>(InJson.frame("BOOKMARK", "", "6"))
    });
    let watch = Body::from_stream(bookmark.chain(stream::pending()));
    let answers = [InJson.page(&["n1"], "5", ""), watch];
    let answers = Arc::new(Mutex::new(VecDeque::from(answers)));
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let answer = answers.lock().unwrap().pop_front();
        async move {
            match answer {
                Some(answer) => Ok::<_, tower::BoxError>(Response::new(answer)),
                None => std::future::pending().await,
            }
        }
    });
    let gap = Gap::default();
    assert_eq!(gap.silent_for(), None);
    let (client, nodes) = (Client::new(service, "default"), Collection::of::<Node>());
    let mut stream = watch_with_gap::<Node, _>(&System::real(), client, nodes, Json, gap.clone());
    let silent_at = async {
        let mut silent = Vec::new();
        for seconds in [20, 20] {
            sleep(Duration::from_secs(seconds)).await;
            silent.push(gap.silent_for().unwrap().as_secs());
        }
        silent
    };
    let follow = async { while stream.next().await.is_some() {} };
    let silent = tokio::select! { silent = silent_at => silent, () = follow => unreachable!() };
    assert_eq!(silent, [20, 10]);
}
