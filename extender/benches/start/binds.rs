//! Forty binds to one node at once, beside as many raw Bindings, and as many that an extender only passes on: no bind waits for another
//! one's Binding. Used by the bench `start`.

use std::ffi::{OsStr, OsString};
use std::time::Duration;

use anyhow::Context as _;
use fake_cluster::ApiServer;
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use tokio::runtime::Runtime;

use crate::api_server::{Served, with_slow_bindings};
use crate::figures::{Figures, mean, median, standard_error};
use crate::objects::{self, create_node};
use crate::process::{Process, until_ready};
use crate::scheduler::{NODE, PODS, TYPE};
use crate::ways::{self, client_of};

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

/// The variable that names the kubeconfig file of a cluster to throw away, in which forty pods are bound, too, to a node that is made for it.
pub(crate) const KUBECONFIG: &str = "NEURON_BENCH_KUBECONFIG";

/// Adds what binding takes at API servers in memory.
pub(crate) fn add_to(figures: &mut Figures, thread: &Runtime) {
    for (name, takes) in API_SERVERS {
        // One is followed by our extender, the other only takes raw Bindings and those that are passed on.
        let [apart, api] = [(); 2].map(|()| {
            let api = ApiServer::default().router();
            thread.block_on(create_node(&api, NODE, TYPE, 0, Vec::new()));
            Served::on(thread, with_slow_bindings(api, takes))
        });
        let [apart_at, api_at] = [&apart, &api].map(|served| served.address.to_string());
        measure(figures, name, &apart_at, &api_at);
    }
}

/// The kubeconfig file of the cluster, if one is named.
pub(crate) fn kubeconfig() -> Option<OsString> {
    std::env::var_os(KUBECONFIG).filter(|path| !path.is_empty())
}

/// Adds what binding takes at the API server of the cluster that this kubeconfig file is for.
pub(crate) fn add_of_cluster(figures: &mut Figures, thread: &Runtime, kubeconfig: &OsStr) {
    let kubeconfig = std::path::absolute(kubeconfig).expect("the path of the kubeconfig file");
    let kubeconfig = kubeconfig.to_str().expect("a path in UTF-8");
    let nodes = || async { anyhow::Ok(Api::<Node>::all(client_of(kubeconfig).await?)) };
    let create = async || {
        let mut node = objects::node(NODE, TYPE, Vec::new());
        // The cluster's DaemonSets stay away from nodes without it.
        node["metadata"]["labels"].as_object_mut().context("labels")?.remove("kubernetes.io/os");
        // The cluster's schedulers keep away from it, and a Binding does not ask.
        node["spec"]["unschedulable"] = true.into();
        let node = serde_json::from_value(node)?;
        nodes().await?.create(&PostParams::default(), &node).await?;
        anyhow::Ok(())
    };
    thread.block_on(create()).expect("the node of the bench can be created");
    measure(figures, "real API server", kubeconfig, kubeconfig);
    let delete = async || anyhow::Ok(nodes().await?.delete(NODE, &DeleteParams::default()).await?);
    thread.block_on(delete()).expect("the node of the bench can be deleted");
}

/// Adds what binding takes with this API server, and the one apart that takes the Bindings that are raw or only passed on.
fn measure(figures: &mut Figures, name: &str, apart: &str, api: &str) {
    let mut extender = Process::start(&[ways::EXTENDER, api]);
    let extender_at = extender.line();
    until_ready(extender_at.parse().expect("where the extender listens"));
    let mut passing = Process::start(&[ways::PASSING, apart]);
    let passing_at = passing.line();

    let mut scheduler = Process::start(&[ways::SCHEDULER, apart, api, &passing_at, &extender_at]);
    let mut rounds: Vec<[f64; 3]> = Vec::new();
    loop {
        let line = scheduler.line();
        if line.is_empty() {
            break;
        }
        let seconds: Vec<f64> = line.split(' ').map(|way| way.parse().expect("seconds")).collect();
        rounds.push(seconds.try_into().expect("a time for each way"));
    }
    scheduler.ended();
    let rounds = rounds.get(WARM_UP..).expect("rounds that count");
    let of = |what: &str| format!("{PODS} {what} at once, {name}");
    let mut add = |what: &str, ratio: fn(&[f64; 3]) -> f64, may_be| {
        let ratios: Vec<f64> = rounds.iter().map(ratio).collect();
        figures.add(of(what), (median(ratios.iter().copied()), ""), may_be);
        figures.add(of(&format!("{what} (mean)")), (mean(&ratios), ""), None);
        let error = standard_error(&ratios);
        figures.add(of(&format!("{what} (standard error of the mean)")), (error, ""), None);
    };
    let demanded = Some(LEAST..=f64::INFINITY);
    add("binds per second / raw Bindings", |[raw, _, binds]| raw / binds, demanded);
    add("passed on per second / raw Bindings", |[raw, passed, _]| raw / passed, None);
    add("binds per second / passed on", |[_, passed, binds]| passed / binds, None);
    for (way, what) in ["raw Bindings", "Bindings that are passed on", "binds"].into_iter().enumerate() {
        figures.add(of(what), (median(rounds.iter().map(|round| round[way] * 1e3)), "ms"), None);
    }
}
