//! Forty binds to one node at once, beside as many raw Bindings: no bind waits for another one's Binding. Used by the bench `start`.

use std::time::Duration;

use fake_cluster::ApiServer;
use tokio::runtime::Runtime;

use crate::api_server::{Served, with_slow_bindings};
use crate::figures::{Figures, median};
use crate::objects::create_node;
use crate::process::{Process, until_ready};
use crate::scheduler::{NODE, PODS, TYPE};
use crate::ways;

/// Rounds by which connections are made and caches are warm; they do not count.
const WARM_UP: usize = 5;

/// How fast binds have to be, in raw Bindings.
const LEAST: f64 = 0.9;

/// What is called how, and how long the API server takes for a Binding: no time at all, and as long as etcd's disk may take for a write
/// (its guide allows 10 ms).
const API_SERVERS: [(&str, Duration); 2] = [
    ("API server at the speed of memory", Duration::ZERO),
    ("API server that takes 10 ms for a Binding", Duration::from_millis(10)),
];

/// Adds what binding takes.
pub(crate) fn add_to(figures: &mut Figures, thread: &Runtime) {
    for (name, takes) in API_SERVERS {
        // One is followed by the extender, the other only takes raw Bindings.
        let [apart, api] = [(); 2].map(|()| {
            let api = ApiServer::default().router();
            thread.block_on(create_node(&api, NODE, TYPE, 0, Vec::new()));
            Served::on(thread, with_slow_bindings(api, takes))
        });
        let [apart_at, api_at] = [&apart, &api].map(|served| served.address.to_string());
        let mut extender = Process::start(&[ways::EXTENDER, &api_at]);
        let extender_at = extender.line();
        until_ready(extender_at.parse().expect("where the extender listens"));

        let mut scheduler = Process::start(&[ways::SCHEDULER, &apart_at, &api_at, &extender_at]);
        let mut rounds = Vec::new();
        loop {
            let line = scheduler.line();
            let Some((raw, binds)) = line.split_once(' ') else { break };
            rounds.push([raw, binds].map(|seconds| seconds.parse::<f64>().expect("seconds")));
        }
        scheduler.ended();
        let rounds = || rounds.iter().skip(WARM_UP);
        let of = |what: &str| format!("{PODS} {what} at once, {name}");
        let ratio = median(rounds().map(|[raw, binds]| raw / binds));
        figures.add(of("binds per second / raw Bindings"), (ratio, ""), Some(LEAST..=f64::INFINITY));
        figures.add(of("raw Bindings"), (median(rounds().map(|[raw, _]| raw * 1e3)), "ms"), None);
        figures.add(of("binds"), (median(rounds().map(|[_, binds]| binds * 1e3)), "ms"), None);
    }
}
