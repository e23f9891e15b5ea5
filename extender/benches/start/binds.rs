//! Forty binds to one node at once, beside as many raw Bindings: no bind waits for another one's Binding. Used by the bench `start`.

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
        // One is followed by the extender, the other only takes raw Bindings.
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

/// Adds what binding takes with this API server, and the one apart that takes the raw Bindings.
fn measure(figures: &mut Figures, name: &str, apart: &str, api: &str) {
    let mut extender = Process::start(&[ways::EXTENDER, api]);
    let extender_at = extender.line();
    until_ready(extender_at.parse().expect("where the extender listens"));

    let mut scheduler = Process::start(&[ways::SCHEDULER, apart, api, &extender_at]);
    let mut rounds = Vec::new();
    loop {
        let line = scheduler.line();
        let Some((raw, binds)) = line.split_once(' ') else { break };
        rounds.push([raw, binds].map(|seconds| seconds.parse::<f64>().expect("seconds")));
    }
    scheduler.ended();
    let rounds = || rounds.iter().skip(WARM_UP);
    let of = |what: &str| format!("{PODS} {what} at once, {name}");
    let ratios: Vec<f64> = rounds().map(|[raw, binds]| raw / binds).collect();
    let mut add = |what: &str, ratio, may_be| {
        figures.add(of(&format!("binds per second / raw Bindings{what}")), (ratio, ""), may_be);
    };
    add("", median(ratios.iter().copied()), Some(LEAST..=f64::INFINITY));
    add(" (mean)", mean(&ratios), None);
    add(" (standard error of the mean)", standard_error(&ratios), None);
    figures.add(of("raw Bindings"), (median(rounds().map(|[raw, _]| raw * 1e3)), "ms"), None);
    figures.add(of("binds"), (median(rounds().map(|[_, binds]| binds * 1e3)), "ms"), None);
}
