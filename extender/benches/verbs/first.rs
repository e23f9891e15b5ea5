//! What the first call about a request costs, of which no node has answered anything yet: kube-scheduler asks about the pods of one owner
//! one after the other, and what nodes answered is kept. Used by the bench `verbs`.

use std::time::Instant;

use futures::executor::block_on;
use neuron_extender::measured::{Measured, filter_by_serde_alone};

use crate::bodies::{FIRST_APP, Form, PODS, Pod, body};
use crate::clusters::{Cluster, NODES};
use crate::figures::{Figures, median};

/// Requests of each pod, each with a container of another name.
const REQUESTS: usize = 40;

/// Adds what first calls with names cost on the cluster.
pub(crate) fn add_to(figures: &mut Figures, cluster: Cluster) {
    let nodes = cluster.nodes();
    let measured = Measured::of(&nodes);
    for pod in PODS {
        let asked = body(Form::Names, pod, &nodes);
        let asked = String::from_utf8(asked).expect("JSON is text");
        assert!(asked.contains(FIRST_APP), "the pod has no container of this name");
        add_of(figures, &measured, cluster, pod, &asked);
    }
}

fn add_of(figures: &mut Figures, measured: &Measured, cluster: Cluster, pod: Pod, asked: &str) {
    let rounds: Vec<[f64; 3]> = (0..REQUESTS)
        .map(|number| {
            let another = asked.replacen(FIRST_APP, &format!("{FIRST_APP}-{number}"), 1).into_bytes();
            measured.renew();
            let serde = microseconds(|| filter_by_serde_alone(&another));
            let filter = microseconds(|| block_on(measured.filter(&another)));
            [serde, filter, microseconds(|| block_on(measured.prioritize(&another)))]
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
