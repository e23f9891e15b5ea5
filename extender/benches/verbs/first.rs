//! What the first call about a request costs, of which no node has answered anything yet: kube-scheduler asks about the pods of one owner
//! one after the other, and what nodes answered is kept. Used by the bench `verbs`.

use std::time::Instant;

use futures::executor::block_on;
use neuron_extender::measured::{Measured, filter_by_serde_alone};

use crate::bodies::{Form, PODS, Pod, body};
use crate::clusters::{Cluster, NODES};
use crate::figures::{Figures, median};

/// First calls about each pod.
const CALLS: usize = 40;

/// Adds what first calls with names cost on the cluster.
pub(crate) fn add_to(figures: &mut Figures, cluster: Cluster) {
    let nodes = cluster.nodes();
    let mut measured = Measured::of(&nodes);
    for pod in PODS {
        add_of(figures, &mut measured, cluster, pod, &body(Form::Names, pod, &nodes));
    }
}

fn add_of(figures: &mut Figures, measured: &mut Measured, cluster: Cluster, pod: Pod, asked: &[u8]) {
    let rounds: Vec<[f64; 3]> = (0..CALLS)
        .map(|_| {
            measured.forget();
            measured.renew();
            let serde = microseconds(|| filter_by_serde_alone(asked));
            let filter = microseconds(|| block_on(measured.filter(asked)));
            [serde, filter, microseconds(|| block_on(measured.prioritize(asked)))]
        })
        .collect();
    let of = |what: &str| format!("the first {what}, names, {}, {}", cluster.name, pod.name);
    let mut add = |what: &str, unit, figure: fn(&[f64; 3]) -> f64| {
        figures.add(of(what), (median(rounds.iter().map(figure)), unit), None);
    };
    add("filter, of each node", "us", |[_, filter, _]| filter / f64::from(NODES));
    add("prioritize, of each node", "us", |[.., prioritize]| prioritize / f64::from(NODES));
    add("filter / serde_json", "", |[serde, filter, _]| filter / serde);
    add("prioritize / filter", "", |[_, filter, prioritize]| prioritize / filter);
}

/// How long the call takes, which has to succeed.
fn microseconds(call: impl FnOnce() -> anyhow::Result<Vec<u8>>) -> f64 {
    let began = Instant::now();
    let answer = call().expect("the body is what kube-scheduler sends");
    let took = began.elapsed();
    drop(answer);
    took.as_secs_f64() * 1e6
}
