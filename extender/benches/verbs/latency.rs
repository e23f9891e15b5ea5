//! How long an ordinary pod's filter takes while a pod that is as hard to place as any is asked about again and again: there is one
//! thread, so a call that comes meanwhile waits for its turn. Used by the bench `verbs`.

use std::sync::Arc;
use std::time::Duration;

use neuron_core::catalog::Catalog;
use neuron_core::occupancy::Occupancy;
use neuron_core::placement::EqualNodes;
use neuron_core::topology::{Policy, Topology};
use neuron_extender::measured::{MOVES_OF_TURN, Measured};
use tokio::runtime::Runtime;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use crate::bodies::{FIRST_APP, Form, HOSTILE, PODS, Pod, body, request};
use crate::clusters::Cluster;
use crate::figures::{Figures, at_most, median, quantile};

/// Ordinary calls.
const CALLS: u64 = 500;

/// Searches of which one gives the length of a turn.
const SEARCHES: usize = 21;

/// For how many turns an ordinary call may wait, at the 99th percentile. A turn ends after the question in which its moves are spent, which
/// may take two turns' moves by itself; the rest is what the call itself takes, and the machine.
const MOST_TURNS: f64 = 3.0;

/// Adds what an ordinary call waits for on the cluster, by names, beside this pod. The hostile call takes so many turns at least: what waits
/// beside a call that is soon answered shows nothing.
pub(crate) fn add_to(
    figures: &mut Figures,
    thread: &Runtime,
    (cluster, pod): (Cluster, Pod),
    least_turns: f64,
) {
    let nodes = cluster.nodes();
    let measured = Measured::of(&nodes);
    let [hostile, ordinary] = [pod, PODS[0]].map(|pod| body(Form::Names, pod, &nodes));
    let alone = thread.block_on(ordinary_calls(&measured, &ordinary));
    // Before and after, as the machine's pace changes.
    let mut turns = turns();
    let mut of_hostile = Vec::new();
    let hostile = String::from_utf8(hostile).expect("JSON is text");
    assert!(hostile.contains(FIRST_APP), "the hostile pod has no container of this name");
    let with = thread.block_on(async {
        tokio::select! {
            biased;
            with = ordinary_calls(&measured, &ordinary) => with,
            // They never end.
            () = hostile_calls(&measured, &hostile, &mut of_hostile) => Vec::new(),
        }
    });
    turns.extend(self::turns());
    let (name, hostile, turn) = (cluster.name, pod.name, median(turns));
    let mut add = |what: String, value| figures.add(format!("{what}, names, {name}"), (value, "ms"), None);
    add("one turn".to_owned(), turn);
    add(format!("filter of the {hostile} pod, median"), median(of_hostile.iter().copied()));
    add("filter of an ordinary pod, p50".to_owned(), median(alone.iter().copied()));
    add("filter of an ordinary pod, p99".to_owned(), quantile(alone, 0.99));
    let beside = format!("filter of an ordinary pod beside the {hostile} one");
    add(format!("{beside}, p50"), median(with.iter().copied()));
    add(format!("{beside}, p99"), quantile(with.iter().copied(), 0.99));
    add(format!("{beside}, longest"), quantile(with.iter().copied(), 1.0));
    let of_turn = |value: f64| (value / turn, "");
    figures.add(
        format!("{beside}, p99 / one turn, names, {name}"),
        of_turn(quantile(with, 0.99)),
        at_most(MOST_TURNS),
    );
    figures.add(
        format!("filter of the {hostile} pod / one turn, names, {name}"),
        of_turn(median(of_hostile)),
        Some(least_turns..=f64::INFINITY),
    );
}

/// The milliseconds of a turn's moves, several times. Always the same search, so that a pod whose moves cost more than others' makes no
/// turn longer.
fn turns() -> Vec<f64> {
    let model = Catalog::embedded().find("trn2.48xlarge").expect("a type of the catalog");
    let topology = Topology::of(model, model.default_lnc, Policy::Documented).expect("its own LNC");
    let empty = Occupancy::empty(Arc::new(topology));
    let request = request(HOSTILE);
    let turn = |_| {
        let mut searched = EqualNodes::new(&request);
        let began = Instant::now();
        let answer = searched.fits(&empty);
        let took = milliseconds(began.elapsed());
        assert!(answer.is_err(), "the hostile pod is not decided");
        took * f64::from(MOVES_OF_TURN) / f64::from(searched.cost().moves)
    };
    (0..SEARCHES).map(turn).collect()
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

/// One call after the other, as from a scheduler that does nothing else, each about a pod of its own: what was searched for the one before
/// is known.
async fn hostile_calls(measured: &Measured, body: &str, took: &mut Vec<f64>) {
    for pod in 0.. {
        let body = body.replace(FIRST_APP, &format!("{FIRST_APP}-of-{pod}"));
        let began = Instant::now();
        let answer = measured.filter(body.as_bytes()).await.expect("an answer of filter");
        took.push(milliseconds(began.elapsed()));
        drop(answer);
        yield_now().await;
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
