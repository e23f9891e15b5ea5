//! Two replicas beside one API server: one leads, the other takes over (T27 of the conformance list). In simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::Request;
use axum::middleware::{Next, from_fn};
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use neuron_core::names::LEADER_LABEL;
use neuron_extender::{Config, LeaderElection, serve};
use runtime::system::{Connection, Task, TaskEnded};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::machine::Machine;
use crate::simulated::{DAY, address, call, post, run};
use crate::slow_pages;
use crate::support::{node, pod};

const LEASE: Duration = Duration::from_secs(15);

/// One replica, which runs in a pod of that name.
struct Replica {
    machine: Arc<Machine>,
    shutdown: CancellationToken,
    serving: Task<anyhow::Result<()>>,
}

struct Replicas {
    api: ApiServer,
    client: Client,
    /// Whether Bindings are lost on their way, and never answered.
    loses_bindings: Arc<AtomicBool>,
    /// Whether a list of all pods takes a minute.
    lists_slowly: Arc<AtomicBool>,
}

impl Replicas {
    /// A cluster of one node with six devices, pods that ask for one each, and the pods of two replicas.
    async fn new(pods: u32) -> Replicas {
        let api = ApiServer::new(Clock::new());
        let client = api.client();
        let nodes: Api<Node> = Api::all(client.clone());
        let n1 = serde_json::from_value(node("n1", "inf2.24xlarge")).unwrap();
        nodes.create(&PostParams::default(), &n1).await.unwrap();
        for number in 0..pods {
            let pod: Pod = serde_json::from_value(pod(&format!("p{number}"), "neuron", 1)).unwrap();
            Api::default_namespaced(client.clone()).create(&PostParams::default(), &pod).await.unwrap();
        }
        for name in ["a", "b"] {
            let pod =
                json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
            let pod: Pod = serde_json::from_value(pod).unwrap();
            Api::namespaced(client.clone(), "kube-system")
                .create(&PostParams::default(), &pod)
                .await
                .unwrap();
        }
        Replicas { api, client, loses_bindings: Arc::default(), lists_slowly: Arc::default() }
    }

    /// Two replicas of which the first leads.
    async fn two(&self) -> [Replica; 2] {
        let a = self.start("a");
        self.bound_by(&a, "p0").await;
        let b = self.start("b");
        self.is_selected("a").await;
        [a, b]
    }

    fn start(&self, pod: &str) -> Replica {
        let machine = Machine::new(DAY, &[]);
        let election = LeaderElection {
            namespace: "kube-system".to_owned(),
            lease: "k8s-neuron-scheduler".to_owned(),
            lease_duration: LEASE,
            pod: pod.to_owned(),
            labels_pod: true,
        };
        let config = Config { leader_election: Some(election), ..Config::default() };
        let listener = machine.system().listen(&address()).unwrap();
        let shutdown = CancellationToken::new();
        let serving = serve(machine.system(), config, self.client_of_replica(), listener, shutdown.clone());
        let serving = machine.system().spawn(serving);
        Replica { machine, shutdown, serving }
    }

    fn client_of_replica(&self) -> Client {
        let lost = self.loses_bindings.clone();
        let lose = from_fn(move |call: Request, next: Next| {
            let is_lost = lost.load(Ordering::SeqCst) && call.uri().path().ends_with("/binding");
            async move { if is_lost { std::future::pending().await } else { next.run(call).await } }
        });
        let slowly = self.lists_slowly.clone();
        let slow = from_fn(move |call: Request, next: Next| {
            let is_slow = slowly.load(Ordering::SeqCst) && slow_pages::is_asked(&call);
            async move { if is_slow { slow_pages::answer(call, next).await } else { next.run(call).await } }
        });
        Client::new(self.api.router().layer(lose).layer(slow), "default")
    }

    /// What the replica answers to a bind; empty if the pod is bound.
    async fn bind(&self, replica: &Replica, name: &str) -> String {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        let uid = pods.get(name).await.unwrap().uid();
        let args = json!({"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": "n1"});
        let answer = post(&replica.machine, "/bind", args).await;
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        body["Error"].as_str().unwrap().to_owned()
    }

    /// Binds the pod once the replica leads; after how long.
    async fn bound_by(&self, replica: &Replica, name: &str) -> Duration {
        let began = Instant::now();
        let bound = async {
            while !self.bind(replica, name).await.is_empty() {
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(LEASE * 3, bound).await.is_ok(), "it does not lead");
        began.elapsed()
    }

    /// A connection on which the replica has answered a call.
    async fn connection(&self, replica: &Replica) -> Connection {
        let mut connection = replica.machine.system().connect(&address()).await.unwrap();
        let body = r#"{"NodeNames": ["n1"]}"#;
        let head = format!("POST /filter HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n", body.len());
        connection.write_all((head + body).as_bytes()).await.unwrap();
        let mut answer = String::new();
        while !answer.ends_with("send one\"}") {
            let mut some = [0; 1024];
            let length = connection.read(&mut some).await.unwrap();
            assert_ne!(length, 0, "{answer}");
            answer.push_str(std::str::from_utf8(&some[..length]).unwrap());
        }
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        connection
    }

    /// Another one than the two replicas holds the Lease, as after a time in which the leader could not renew it.
    async fn depose(&self) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        let patch = Patch::Merge(json!({"spec": {"holderIdentity": "another one"}}));
        leases.patch("k8s-neuron-scheduler", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn device(&self, name: &str) -> Option<String> {
        let pods: Api<Pod> = Api::default_namespaced(self.client.clone());
        pods.get(name).await.unwrap().annotations().get("NEURON_DEVS").cloned()
    }

    /// Waits until a replica of this identity, which begins so, holds the Lease.
    async fn is_held(&self, by: &str) {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        let held = async {
            loop {
                let spec = leases.get("k8s-neuron-scheduler").await.unwrap().spec.unwrap();
                if spec.holder_identity.is_some_and(|holder| holder.starts_with(by)) {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(LEASE * 3, held).await.is_ok(), "it does not hold the Lease");
    }

    /// The pod that the Service selects, once it is that one alone.
    async fn is_selected(&self, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "kube-system");
        let selected = async {
            loop {
                let all = pods.list(&Default::default()).await.unwrap().items;
                let labelled = all.iter().filter(|pod| pod.labels().contains_key(LEADER_LABEL));
                if labelled.map(ResourceExt::name_any).collect::<Vec<_>>() == [name] {
                    return;
                }
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(Duration::from_secs(5), selected).await.is_ok(), "the leader has no label");
    }
}

/// Whether a connection without a call is still open after five seconds, and nothing comes on it.
async fn stays_open(connection: &mut Connection) -> bool {
    match timeout(Duration::from_secs(5), connection.read(&mut [0])).await {
        Ok(read) => {
            assert_eq!(read.unwrap(), 0);
            false
        }
        Err(_) => true,
    }
}

#[test]
fn the_other_one_takes_over_when_the_leader_dies() {
    run(async {
        let replicas = Replicas::new(4).await;
        let [a, b] = replicas.two().await;
        let told = replicas.bind(&b, "p1").await;
        assert!(told.contains("does not place pods, a_"), "{told}");
        assert!(call(&b.machine, "GET", "/readyz", "").await.starts_with("HTTP/1.1 200"), "it is ready");
        a.serving.abort();
        let took = replicas.bound_by(&b, "p1").await;
        assert!(took >= LEASE * 3 / 4 && took < LEASE * 2, "{took:?}");
        assert_eq!(
            (replicas.device("p0").await.as_deref(), replicas.device("p1").await.as_deref()),
            (Some("0"), Some("1"))
        );
        replicas.is_selected("b").await;
    });
}

/// Longer than a watch may be silent, and than a Lease lasts. Nobody would ever place pods if a leader that lists did not count as one that
/// hears.
#[test]
fn a_new_leader_takes_over_however_long_its_list_of_the_pods_takes() {
    run(async {
        let replicas = Replicas::new(2).await;
        let [a, b] = replicas.two().await;
        replicas.lists_slowly.store(true, Ordering::SeqCst);
        a.serving.abort();
        replicas.is_held("b_").await;
        assert_eq!(shown_as_leader(&b).await, 0, "it lists");
        let leads = async {
            while !replicas.bind(&b, "p1").await.is_empty() {
                assert!(call(&b.machine, "GET", "/readyz", "").await.starts_with("HTTP/1.1 200"), "it lists");
                sleep(Duration::from_millis(100)).await;
            }
        };
        assert!(timeout(Duration::from_secs(90), leads).await.is_ok(), "it does not lead");
        assert_eq!(replicas.device("p1").await.as_deref(), Some("1"));
        replicas.is_selected("b").await;
        assert_eq!(shown_as_leader(&b).await, 1);
    });
}

/// What the replica's metric `leader` is.
async fn shown_as_leader(replica: &Replica) -> u8 {
    let metrics = call(&replica.machine, "GET", "/metrics", "").await;
    let value = metrics.lines().find_map(|line| line.strip_prefix("neuron_extender_leader "));
    value.unwrap().parse().unwrap()
}

/// kube-scheduler keeps its connections, and one that it opened before the label moved would lead to this replica for good.
#[test]
fn who_does_not_lead_keeps_no_connection() {
    run(async {
        let replicas = Replicas::new(2).await;
        let [a, b] = replicas.two().await;
        assert!(stays_open(&mut replicas.connection(&a).await).await, "the leader's is kept");
        assert!(!stays_open(&mut replicas.connection(&b).await).await, "the other one's is closed");
    });
}

/// It would lead to the deposed one as long as kube-scheduler keeps it, whomever the Service selects.
#[test]
fn a_leader_that_is_deposed_closes_connections_without_a_call() {
    run(async {
        let replicas = Replicas::new(2).await;
        let [a, _b] = replicas.two().await;
        let mut idle = replicas.connection(&a).await;
        assert!(stays_open(&mut idle).await, "it leads");
        replicas.depose().await;
        assert!(!stays_open(&mut idle).await, "it does not lead any more");
        let told = replicas.bind(&a, "p1").await;
        assert!(told.contains("does not place pods, another one does"), "{told}");
    });
}

#[test]
fn a_leader_that_stops_hands_over_at_once() {
    run(async {
        let replicas = Replicas::new(4).await;
        let [a, b] = replicas.two().await;
        a.shutdown.cancel();
        assert!(matches!(a.serving.await, Ok(Ok(())) | Err(TaskEnded::Aborted)));
        let took = replicas.bound_by(&b, "p1").await;
        assert!(took < LEASE / 4, "{took:?}");
        assert_eq!(replicas.device("p1").await.as_deref(), Some("1"));
        replicas.is_selected("b").await;
    });
}

#[test]
fn a_leader_that_stops_and_does_not_know_what_became_of_a_binding_leaves_the_time_of_its_lease() {
    run(async {
        let replicas = Replicas::new(4).await;
        let [a, b] = replicas.two().await;
        replicas.loses_bindings.store(true, Ordering::SeqCst);
        let told = replicas.bind(&a, "p1").await;
        assert!(told.starts_with("it is not clear whether the pod was bound: "), "{told}");
        replicas.loses_bindings.store(false, Ordering::SeqCst);
        a.shutdown.cancel();
        assert!(matches!(a.serving.await, Ok(Ok(())) | Err(TaskEnded::Aborted)));
        let took = replicas.bound_by(&b, "p2").await;
        assert!(took >= LEASE / 2 && took < LEASE * 2, "{took:?}");
    });
}
