//! How long an ordinary pod's filter takes while a pod that is as hard to place as any is asked about again and again: there is one
//! thread, so a call that comes meanwhile waits for its turn. Used by the bench `verbs`.

use std::time::Duration;

use neuron_extender::measured::Measured;
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::bodies::{Form, HOSTILE, PODS, body};
use crate::clusters::Cluster;
use crate::figures::{Figures, median, quantile};

/// Ordinary calls.
const CALLS: u64 = 500;

/// Adds what an ordinary call waits for on the cluster, by names.
pub(crate) fn add_to(figures: &mut Figures, thread: &Runtime, cluster: Cluster) {
    let nodes = cluster.nodes();
    let measured = Measured::of(&nodes);
    let [hostile, ordinary] = [HOSTILE, PODS[0]].map(|pod| body(Form::Names, pod, &nodes));
    let alone = thread.block_on(ordinary_calls(&measured, &ordinary));
    let mut of_hostile = Vec::new();
    let with = thread.block_on(async {
        tokio::select! {
            biased;
            with = ordinary_calls(&measured, &ordinary) => with,
            // They never end.
            () = hostile_calls(&measured, &hostile, &mut of_hostile) => Vec::new(),
        }
    });
    let name = cluster.name;
    let mut add = |what: &str, value| figures.add(format!("{what}, names, {name}"), (value, "ms"), None);
    add("filter of the hostile pod, median", median(of_hostile.iter().copied()));
    add("filter of an ordinary pod, p50", median(alone.iter().copied()));
    add("filter of an ordinary pod, p99", quantile(alone, 0.99));
    add("filter of an ordinary pod beside the hostile one, p50", median(with.iter().copied()));
    add("filter of an ordinary pod beside the hostile one, p99", quantile(with.iter().copied(), 0.99));
    add("filter of an ordinary pod beside the hostile one, longest", quantile(with.iter().copied(), 1.0));
    // It waits for what is left of a turn, and others may come first.
    let beside = quantile(with, 0.99) / median(of_hostile);
    figures.add(
        format!("p99 of an ordinary pod / the hostile call beside it, names, {name}"),
        (beside, ""),
        Some(0.0..=1.5),
    );
}

/// The milliseconds of each call, from the moment at which it was to come: the timer, which is as exact as a millisecond, wakes it
/// as a socket does, once the thread looks.
async fn ordinary_calls(measured: &Measured, body: &[u8]) -> Vec<f64> {
    let mut took = Vec::new();
    for call in 0..CALLS {
        measured.renew();
        // At ever other moments of the other pod's calls.
        let comes = Instant::now() + Duration::from_micros(1_000 + call * 7_919 % 15_000);
        sleep_until(comes).await;
        let answer = measured.filter(body).await.expect("an answer of filter");
        took.push(milliseconds(comes.elapsed()));
        drop(answer);
    }
    took
}

/// One call after the other, as from a scheduler that does nothing else.
async fn hostile_calls(measured: &Measured, body: &[u8], took: &mut Vec<f64>) {
    loop {
        let began = Instant::now();
        let answer = measured.filter(body).await.expect("an answer of filter");
        took.push(milliseconds(began.elapsed()));
        drop(answer);
        yield_now().await;
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
