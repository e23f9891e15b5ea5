//! 5,000 nodes are answered for within kube-scheduler's limit while binds and watch events go on (T30 of the conformance list).

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use neuron_extender::Config;
use serde_json::{Value, json};
use testkit_support::eventually;
use tokio::sync::Semaphore;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use crate::support::{Fault, World, bound, pod};

const NODES: usize = 5_000;
/// What the nodes are, in turn.
const TYPES: [&str; 5] = ["trn2.48xlarge", "inf2.48xlarge", "trn1.32xlarge", "inf2.24xlarge", "m5.large"];
const BINDS: usize = 40;
/// How many calls of filter are timed.
const CALLS: usize = 10;
/// How long kube-scheduler waits for an extender unless it is told otherwise (docs/reference/kubernetes.md §1).
const LIMIT: Duration = Duration::from_secs(5);
/// Pods that hold something at one time.
const HOLDERS: usize = 100;

fn name(node: usize) -> String {
    format!("node-{node}")
}

/// Pods come and go on one node after another, some hundred in a second, until `stop`. How many came.
async fn come_and_go(pods: Api<Pod>, stop: CancellationToken) -> usize {
    let (mut came, mut pace) = (0usize, interval(Duration::from_millis(4)));
    while stop.run_until_cancelled(pace.tick()).await.is_some() {
        // Those of 12 devices.
        let node = name((came * TYPES.len() + 1) % NODES);
        let record =
            json!({"v": 1, "node": node, "lnc": 1, "containers": {"main": {"devices": [came % 12]}}});
        let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
        let comes = bound(pod(&format!("holder-{came}"), "neuron", 1), &node, annotations);
        pods.create(&PostParams::default(), &serde_json::from_value(comes).unwrap()).await.unwrap();
        if let Some(goes) = came.checked_sub(HOLDERS) {
            pods.delete(&format!("holder-{goes}"), &DeleteParams::default().grace_period(0)).await.unwrap();
        }
        came += 1;
    }
    came
}

/// Ends the extender with the test, which waits for its thread even where it fails.
struct Running(World);

impl Deref for Running {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

/// Pods that most nodes take, that few do, and that none does, for several reasons.
fn asking() -> [Value; 3] {
    let mut two = pod("two", "neuron", 4);
    let second = json!({"name": "second", "image": "workload", "resources": {"limits": {"aws.amazon.com/neuroncore": "9"}}});
    two["spec"]["containers"].as_array_mut().unwrap().push(second);
    [pod("few", "neuron", 4), two, pod("never", "neuron", 13)]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_nodes_are_answered_for_in_time_while_binds_and_events_go_on() {
    let names: Vec<String> = (0..NODES).map(name).collect();
    let nodes: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(TYPES.into_iter().cycle()).collect();
    // The binds end as the test lets them.
    let config = Config { bind_deadline: Duration::from_secs(50), ..Config::default() };
    let mut world = World::configured(config, &nodes).await;
    world.stop().await;
    // It has one thread, as the program has, and shares it with nothing of the test.
    world.launch_in_own_runtime().await;
    let world = Running(world);
    eventually("the extender is ready", async || (world.get("/readyz").await.0 == 200).then_some(())).await;
    let (stop, gate) = (CancellationToken::new(), Arc::new(Semaphore::new(0)));
    let events = tokio::spawn(come_and_go(world.pods(), stop.clone()));
    let mut binds = Vec::new();
    for number in 0..BINDS {
        world.faults.push(Fault::Held(gate.clone()));
        let one = world.pod(&format!("bound-{number}"), "neuroncore", 1).await;
        binds.push(world.bind_later(&one, &name(0)));
    }
    let under_way = format!("neuron_extender_reservations {BINDS}");
    eventually("all binds to be under way", async || {
        world.get("/metrics").await.1.lines().any(|line| line == under_way).then_some(())
    })
    .await;

    let mut slowest = Duration::ZERO;
    for (pod, _) in asking().iter().cycle().zip(0..CALLS) {
        let args = json!({"Pod": pod, "Nodes": null, "NodeNames": names}).to_string();
        let began = Instant::now();
        let answer = world.post("/filter", args).await;
        slowest = slowest.max(began.elapsed());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let refused =
            ["FailedNodes", "FailedAndUnresolvableNodes"].map(|part| answer[part].as_object().unwrap().len());
        let fitting = answer["NodeNames"].as_array().map_or(0, Vec::len);
        assert_eq!(fitting + refused[0] + refused[1], NODES, "{}", answer["Error"]);
        gate.add_permits(BINDS / CALLS);
    }
    for bind in binds {
        assert_eq!(bind.await.unwrap(), "");
    }
    stop.cancel();
    let came = events.await.unwrap();
    assert!(slowest < LIMIT, "{slowest:?} while {came} pods came");
    assert!(came > CALLS, "{came} pods came");
}
