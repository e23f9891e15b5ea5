//! The extender on a machine in memory: it asks the computer that runs it nothing, so that the same story comes out the same,
//! and nothing of it is left when it ends.

use std::sync::Arc;
use std::time::Duration;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use neuron_extender::{Config, Probe, Sizes, TlsFiles, serve};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, date_time_ymd};
use runtime::system::{Address, Task};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Builder;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::logs::Log;
use crate::machine::Machine;
use crate::support::{Fault, Faults, node, pod};
use crate::tls::Ca;

/// 2024-10-04.
pub(crate) const DAY: u32 = 20_000;

/// Runs the story in a time of its own, which stands still but for what is waited for. There are no sockets: who opens one fails.
pub(crate) fn run<T>(story: impl Future<Output = T>) -> T {
    Builder::new_current_thread().enable_time().start_paused(true).build().unwrap().block_on(story)
}

pub(crate) fn address() -> Address {
    Address::Tcp(([127, 0, 0, 1], 12345).into())
}

/// An extender on a machine of its own, two nodes, and pods that wait, each of which asks for some devices.
struct Simulated {
    machine: Arc<Machine>,
    faults: Faults,
    client: Client,
    probe: Probe,
    shutdown: CancellationToken,
    serving: Task<anyhow::Result<()>>,
}

impl Simulated {
    async fn start(devices: &[u32]) -> Simulated {
        let api = ApiServer::new(Clock::new());
        let client = api.client();
        let (nodes, pods): (Api<Node>, Api<Pod>) =
            (Api::all(client.clone()), Api::default_namespaced(client.clone()));
        for name in ["n1", "n2"] {
            let node = serde_json::from_value(node(name, "trn1.32xlarge")).unwrap();
            nodes.create(&PostParams::default(), &node).await.unwrap();
        }
        for (number, count) in devices.iter().enumerate() {
            let pod = serde_json::from_value(pod(&format!("p{number}"), "neuron", *count)).unwrap();
            pods.create(&PostParams::default(), &pod).await.unwrap();
        }
        let machine = Machine::new(DAY, &[("/etc/types.json", r#"{"types": []}"#)]);
        let (faults, probe, shutdown) = (Faults::default(), Probe::new(), CancellationToken::new());
        let catalog = Some("/etc/types.json".into());
        let config = Config { catalog, probe: Some(probe.clone()), ..Config::default() };
        let bind_deadline = config.bind_deadline;
        let listener = machine.system().listen(&address()).unwrap();
        let serving = serve(machine.system(), config, faults.client(&api), listener, shutdown.clone());
        let serving = machine.system().spawn(serving);
        // What one before it may have had under way is over.
        sleep(bind_deadline).await;
        Simulated { machine, faults, client, probe, shutdown, serving }
    }

    fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.client.clone())
    }

    /// What the extender answers to a call of this path.
    async fn post(&self, path: &str, body: Value) -> String {
        post(&self.machine, path, body).await
    }

    async fn filter(&self, name: &str) -> String {
        let pod = self.pods().get(name).await.unwrap();
        self.filter_of(json!(pod), &["n2", "n1"]).await
    }

    async fn filter_of(&self, pod: Value, nodes: &[&str]) -> String {
        self.post("/filter", json!({"Pod": pod, "Nodes": null, "NodeNames": nodes})).await
    }

    async fn bind(&self, name: &str, node: &str) -> String {
        let uid = self.pods().get(name).await.unwrap().uid();
        let args = json!({"PodName": name, "PodNamespace": "default", "PodUID": uid, "Node": node});
        self.post("/bind", args).await
    }

    async fn unschedulable(&self, name: &str) {
        let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable"});
        let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.pods().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn events(&self) -> Vec<Event> {
        let events: Api<Event> = Api::default_namespaced(self.client.clone());
        events.list(&Default::default()).await.unwrap().items
    }
}

/// What the extender on the machine answers to a call of this path.
pub(crate) async fn post(machine: &Arc<Machine>, path: &str, body: Value) -> String {
    call(machine, "POST", path, &body.to_string()).await
}

/// What it answers to a call with this method.
pub(crate) async fn call(machine: &Arc<Machine>, method: &str, path: &str, body: &str) -> String {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let mut connection = machine.system().connect(&address()).await.unwrap();
    connection.write_all((head + body).as_bytes()).await.unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.unwrap();
    answer
}

/// The files of HTTPS on a machine of this day: a certificate of the year 2001.
fn https(day: u32) -> (Arc<Machine>, Config) {
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2001, 1, 1), date_time_ymd(2002, 1, 1));
    let pair = Ca::new("servers").sign(params, ExtendedKeyUsagePurpose::ServerAuth);
    let files = TlsFiles { certificate: "/tls/crt".into(), key: "/tls/key".into(), client_ca: None };
    let machine = Machine::new(day, &[("/tls/crt", &pair.certificate), ("/tls/key", &pair.key)]);
    (machine, Config { tls: Some(files), ..Config::default() })
}

#[test]
fn certificates_are_judged_by_the_clock_of_the_machine() {
    run(async {
        let (machine, config) = https(DAY);
        let client = ApiServer::new(Clock::new()).client();
        let listener = machine.system().listen(&address()).unwrap();
        let serving = serve(machine.system(), config, client, listener, CancellationToken::new());
        assert_eq!(
            serving.await.unwrap_err().to_string(),
            "the certificate in /tls/crt has expired at 2002-01-01T00:00:00Z; renew it"
        );
    });
}

#[test]
fn a_client_that_never_shakes_hands_is_hung_up_on() {
    run(async {
        let (log, _guard) = Log::start();
        // 2001-07-01.
        let (machine, config) = https(11_504);
        let client = ApiServer::new(Clock::new()).client();
        let listener = machine.system().listen(&address()).unwrap();
        let serving = serve(machine.system(), config, client, listener, CancellationToken::new());
        let _serving = machine.system().spawn(serving);
        let mut silent = machine.system().connect(&address()).await.unwrap();
        let began = Instant::now();
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
        assert_eq!(began.elapsed().as_secs(), 10);
        let logged = r#"WARN TLS handshake failed client="caller" reason="it was not done within 10s""#;
        assert_eq!(log.lines("handshake"), [logged]);
    });
}

#[test]
fn where_something_is_written_beside_the_certificate_all_the_time_it_is_read_once_a_second() {
    run(async {
        let (machine, config) = https(11_504);
        let client = ApiServer::new(Clock::new()).client();
        let listener = machine.system().listen(&address()).unwrap();
        let serving = serve(machine.system(), config, client, listener, CancellationToken::new());
        let _serving = machine.system().spawn(serving);
        sleep(Duration::from_secs(2)).await;
        let read = machine.reads();
        machine.change_folders();
        sleep(Duration::from_millis(1)).await;
        assert_eq!(machine.reads() - read, 2, "a change is followed at once, by the certificate and its key");
        for _ in 0..1000 {
            machine.change_folders();
            sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(machine.reads() - read, 2 * 11);
    });
}

/// Everything that anybody can see of a busy hour in which much goes wrong.
async fn busy_hour() -> Vec<String> {
    let (log, _guard) = Log::start();
    let devices = [1, 4, 8, 1, 16, 7, 3, 5];
    let world = Simulated::start(&devices).await;
    let names: Vec<String> = (0..devices.len()).map(|number| format!("p{number}")).collect();
    // They come before the first lists, and wait for them together.
    let mut seen = join_all(names.iter().map(|name| world.filter(name))).await;
    for fault in [Fault::AnswerLost, Fault::CallLost, Fault::Status(504), Fault::Silent] {
        world.faults.push(fault);
    }
    let nodes = ["n1", "n2"].into_iter().cycle();
    seen.extend(join_all(names.iter().zip(nodes).map(|(name, node)| world.bind(name, node))).await);
    world.faults.lose_events(2);
    join_all(names.iter().map(|name| world.unschedulable(name))).await;
    world.faults.disconnect_watches(true);
    seen.extend(join_all(names.iter().map(|name| world.filter(name))).await);
    sleep(Duration::from_secs(1800)).await;
    world.faults.disconnect_watches(false);
    sleep(Duration::from_secs(1800)).await;
    seen.push(format!("{:?}", world.probe.sizes()));
    world.shutdown.cancel();
    world.serving.await.unwrap().unwrap();
    seen.extend(log.lines(""));
    let (pods, events) = (Api::<Pod>::all(world.client.clone()), Api::<Event>::all(world.client.clone()));
    for pod in pods.list(&Default::default()).await.unwrap() {
        seen.push(json!(pod).to_string());
    }
    for event in events.list(&Default::default()).await.unwrap() {
        seen.push(json!(event).to_string());
    }
    seen
}

#[test]
fn a_replica_whose_watches_tell_nothing_is_not_ready() {
    run(async {
        let world = Simulated::start(&[1]).await;
        let ready = async || call(&world.machine, "GET", "/readyz", "").await;
        world.filter("p0").await;
        assert!(ready().await.starts_with("HTTP/1.1 200"));
        world.faults.disconnect_watches(true);
        sleep(Duration::from_secs(25)).await;
        assert!(ready().await.starts_with("HTTP/1.1 200"), "others know no more");
        sleep(Duration::from_secs(150)).await;
        let told = ready().await;
        assert!(told.starts_with("HTTP/1.1 503") && told.contains("has told nothing for 1"), "{told}");
        world.faults.disconnect_watches(false);
        sleep(Duration::from_secs(10)).await;
        assert!(ready().await.starts_with("HTTP/1.1 200"));
    });
}

#[test]
fn the_same_hour_comes_out_the_same() {
    let first = run(busy_hour());
    assert!(first.len() > 50, "{first:#?}");
    for _ in 0..3 {
        let again = run(busy_hour());
        // One after the other: all together nobody could read.
        for (first, again) in first.iter().zip(&again) {
            assert_eq!(again, first);
        }
        assert_eq!(again.len(), first.len());
    }
}

/// Autoscalers call filter as they like, and whoever knows a pod's UID may.
#[test]
fn who_else_asks_filter_takes_no_node_from_kube_scheduler() {
    run(async {
        let world = Simulated::start(&[1]).await;
        // No other leader may have admitted it by now.
        sleep(Duration::from_secs(61)).await;
        let asks = json!(world.pods().get("p0").await.unwrap());
        assert!(world.filter("p0").await.contains(r#""NodeNames":["n2","n1"]"#));
        assert!(world.filter_of(asks.clone(), &["n2"]).await.contains(r#""NodeNames":["n2"]"#));
        let mut more = pod("p0", "neuron", 17);
        more["metadata"]["uid"] = asks["metadata"]["uid"].clone();
        assert!(world.filter_of(more, &["n2", "n1"]).await.contains(r#""NodeNames":[]"#));
        let told = world.bind("p0", "n1").await;
        assert!(told.ends_with(r#"{"Error":""}"#), "{told}");
    });
}

#[test]
fn dates_are_those_of_the_machine() {
    run(async {
        let world = Simulated::start(&[1, 7]).await;
        assert!(world.bind("p0", "n1").await.ends_with(r#"{"Error":""}"#));
        world.unschedulable("p1").await;
        sleep(Duration::from_secs(60)).await;
        let bound = world.pods().get("p0").await.unwrap().annotations()["NEURON_ALLOC_TIME"].clone();
        let seconds = bound.parse::<u64>().unwrap() / 1_000_000_000;
        assert_eq!(seconds / 60, u64::from(DAY) * 24 * 60, "{bound}");
        let event = world.events().await.remove(0);
        assert!(json!(event)["eventTime"].as_str().unwrap().starts_with("2024-10-04T00:00:"), "{event:?}");
    });
}

#[test]
fn a_probe_tells_what_is_remembered_while_the_extender_runs() {
    run(async {
        let world = Simulated::start(&[1, 7, 1]).await;
        world.faults.push(Fault::CallLost);
        assert!(world.bind("p0", "n1").await.contains("it is not clear whether the pod was bound"));
        assert!(world.filter("p1").await.contains(r#""NodeNames":[]"#));
        world.unschedulable("p1").await;
        sleep(Duration::from_secs(30)).await;
        let remembered = Sizes {
            pods: 3,
            nodes: 2,
            topologies: 1,
            reservations: 1,
            // Both of the device.
            cores_taken: 2,
            events_sent: 1,
            refusals_logged: 1,
            ..Sizes::default()
        };
        assert_eq!(world.probe.sizes(), Some(remembered));
        // What became of the lost call is known by then.
        sleep(Duration::from_secs(60)).await;
        assert_eq!(world.probe.sizes(), Some(Sizes { reservations: 0, cores_taken: 0, ..remembered }));
        world.shutdown.cancel();
        world.serving.await.unwrap().unwrap();
        assert_eq!(world.probe.sizes(), None);
    });
}

/// The watch shows its pod. One that slept for a minute beside it, for each bind, would be thousands of them.
#[test]
fn a_bind_that_was_carried_out_leaves_nothing_that_waits() {
    run(async {
        let world = Simulated::start(&[1, 1, 1, 1]).await;
        let mut tasks = Vec::new();
        for pod in ["p0", "p1", "p2", "p3"] {
            let answer = world.bind(pod, "n1").await;
            assert!(answer.ends_with("{\"Error\":\"\"}"), "{answer}");
            sleep(Duration::from_secs(1)).await;
            tasks.push(world.machine.tasks());
        }
        assert!(tasks.iter().all(|after| *after == tasks[0]), "{tasks:?} after each");
    });
}

#[test]
fn nothing_is_left_of_an_extender_that_has_ended_or_is_killed() {
    for killed in [false, true] {
        run(async {
            let world = Simulated::start(&[1, 1]).await;
            world.faults.push(Fault::CallLost);
            world.faults.push(Fault::Silent);
            assert!(world.bind("p0", "n1").await.contains("it is not clear whether the pod was bound"));
            let _open = world.machine.system().connect(&address()).await;
            let end = async {
                sleep(Duration::from_millis(100)).await;
                assert!(world.machine.tasks() > 5, "it watches, explains, serves, binds and waits");
                if killed { world.serving.abort() } else { world.shutdown.cancel() }
            };
            tokio::join!(end, world.bind("p1", "n1"));
            sleep(Duration::from_millis(1)).await;
            assert_eq!(world.machine.tasks(), 0, "killed: {killed}");
        });
    }
}
