//! An extender without an election that is killed and started again, in simulated time.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, Client, ResourceExt};
use neuron_extender::{Config, serve};
use runtime::system::Task;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::machine::Machine;
use crate::simulated::{DAY, address, post, run};
use crate::support::{node, pod};

/// How long the API server takes for a Binding.
const SLOW: Duration = Duration::from_secs(2);

struct World {
    client: Client,
    slow: Client,
}

impl World {
    /// A node with six devices, and an API server that is slow in binding for some.
    async fn new() -> World {
        let api = ApiServer::new(Clock::new());
        let client = api.client();
        let n1: Node = serde_json::from_value(node("n1", "inf2.24xlarge")).unwrap();
        Api::all(client.clone()).create(&PostParams::default(), &n1).await.unwrap();
        // Like the API server it carries out what it has read, though the client is gone.
        let layer = from_fn(|call: Request, next: Next| async move {
            let is_binding = call.uri().path().ends_with("/binding");
            let answer = tokio::spawn(async move {
                sleep(if is_binding { SLOW } else { Duration::ZERO }).await;
                next.run(call).await
            });
            answer.await.unwrap()
        });
        World { client, slow: Client::new(api.router().layer(layer), "default") }
    }

    async fn create(&self, name: &str) {
        let pod: Pod = serde_json::from_value(pod(name, "neuron", 1)).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    async fn device(&self, name: &str) -> Option<String> {
        self.pods().get(name).await.unwrap().annotations().get("NEURON_DEVS").cloned()
    }

    /// Filters the pod and binds it, as often as it takes; with the answers to bind.
    async fn place(&self, machine: &Arc<Machine>, name: &str) -> Vec<String> {
        let pod = self.pods().get(name).await.unwrap();
        let bind =
            json!({"PodName": name, "PodNamespace": "default", "PodUID": pod.uid().unwrap(), "Node": "n1"});
        let mut answers = Vec::new();
        loop {
            post(machine, "/filter", json!({"Pod": pod, "NodeNames": ["n1"]})).await;
            let answer = post(machine, "/bind", bind.clone()).await;
            let answer: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
            answers.push(answer["Error"].as_str().unwrap().to_owned());
            if answers.last().is_some_and(String::is_empty) {
                return answers;
            }
            assert!(answers.len() < 100, "{name} is not bound: {answers:#?}");
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn start(client: Client) -> (Arc<Machine>, Task<anyhow::Result<()>>) {
    let machine = Machine::new(DAY, &[]);
    let listener = machine.system().listen(&address()).unwrap();
    let serving = serve(machine.system(), Config::default(), client, listener, CancellationToken::new());
    let serving = machine.system().spawn(serving);
    (machine, serving)
}

#[test]
fn who_starts_again_waits_for_what_it_had_under_way_when_it_was_killed() {
    run(async {
        let world = World::new().await;
        let (machine, killed) = start(world.slow.clone());
        for name in ["first", "second"] {
            world.create(name).await;
        }
        tokio::select! {
            bound = world.place(&machine, "first") => panic!("bound before it was killed: {bound:?}"),
            () = sleep(SLOW / 2) => killed.abort(),
        }
        let (machine, _serving) = start(world.client.clone());
        let answers = world.place(&machine, "second").await;
        sleep(SLOW).await;
        assert_eq!(
            [world.device("first").await.as_deref(), world.device("second").await.as_deref()],
            [Some("0"), Some("1")],
            "{answers:#?}"
        );
    });
}

/// What one before it had under way was of pods that still wait.
#[test]
fn who_starts_where_no_pod_waits_places_pods_at_once() {
    run(async {
        let world = World::new().await;
        let (machine, _serving) = start(world.client.clone());
        sleep(Duration::from_millis(100)).await;
        world.create("first").await;
        let began = Instant::now();
        assert_eq!(world.place(&machine, "first").await, [""]);
        assert!(began.elapsed() < Duration::from_millis(100), "{:?}", began.elapsed());
    });
}
