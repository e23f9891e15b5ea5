//! Watches that begin and say nothing, and namespaces in which nothing happens: which of them is silence. In simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use axum::body::Body;
use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use futures::{StreamExt as _, stream};
use http::Request;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Namespace, Node};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use neuron_extender::{Config, serve};
use rstest::rstest;
use runtime::system::Task;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::machine::Machine;
use crate::simulated::{DAY, address, call, post, run};
use crate::support::{node, pod};

/// A watch that was begun lasts for a minute at most, and five seconds longer where nobody ends it. For half a minute more others know no
/// more either.
const LIMIT: Duration = Duration::from_secs(60 + 5 + 30 + 1);

/// An API server, or something before it, whose watches may begin and then say nothing: no event, no bookmark, not that they end.
#[derive(Clone, Default)]
struct Mute {
    /// What ends with one of these.
    paths: &'static [&'static str],
    watches: Arc<AtomicBool>,
    /// Whether lists are not answered either.
    lists: Arc<AtomicBool>,
    listed: Arc<AtomicUsize>,
}

impl Mute {
    fn of(paths: &'static [&'static str]) -> Mute {
        Mute { paths, ..Mute::default() }
    }

    fn client(&self, api: &ApiServer) -> Client {
        let (router, mute) = (api.router(), self.clone());
        let service = tower::service_fn(move |request: Request<kube::client::Body>| {
            let (router, mute) = (router.clone(), mute.clone());
            async move {
                let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
                if request.method() != http::Method::GET || !mute.paths.iter().any(|end| path.ends_with(end))
                {
                    return Ok::<_, tower::BoxError>(router.oneshot(request).await?);
                }
                if query.contains("watch=true") {
                    return Ok(router.oneshot(request).await?.map(|body| mute.watch(body)));
                }
                mute.listed.fetch_add(1, Ordering::SeqCst);
                if mute.lists.load(Ordering::SeqCst) {
                    return std::future::pending().await;
                }
                Ok(router.oneshot(request).await?)
            }
        });
        Client::new(service, "default")
    }

    fn watch(self, body: Body) -> Body {
        let frames = body.into_data_stream();
        Body::from_stream(stream::unfold((frames, self), |(mut frames, mute)| async move {
            let frame = frames.next().await;
            if mute.watches.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            frame.map(|frame| (frame, (frames, mute)))
        }))
    }
}

/// An extender over two inf2.xlarge. It goes on while the task is kept.
async fn started(api: &ApiServer, mute: &Mute, config: Config) -> (Arc<Machine>, Task<anyhow::Result<()>>) {
    for name in ["n1", "n2"] {
        create_node(api, name).await;
    }
    let machine = Machine::new(DAY, &[]);
    let listener = machine.system().listen(&address()).unwrap();
    let serving = serve(machine.system(), config, mute.client(api), listener, CancellationToken::new());
    let serving = machine.system().spawn(serving);
    (machine, serving)
}

async fn create_node(api: &ApiServer, name: &str) {
    let inf2 = serde_json::from_value(node(name, "inf2.xlarge")).unwrap();
    Api::<Node>::all(api.client()).create(&PostParams::default(), &inf2).await.unwrap();
}

/// What filter answers about these nodes for a pod that asks for so many cores; each has two.
async fn filter(machine: &Arc<Machine>, cores: u32, nodes: &[&str]) -> Value {
    let asks = json!({"Pod": pod("asks", "neuroncore", cores), "NodeNames": nodes});
    let answer = post(machine, "/filter", asks).await;
    serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap()
}

async fn takes_pods(machine: &Arc<Machine>, node: &str) -> bool {
    filter(machine, 2, &[node]).await["NodeNames"] == json!([node])
}

async fn shows(machine: &Arc<Machine>, line: &str) -> bool {
    call(machine, "GET", "/metrics", "").await.lines().any(|shown| shown == line)
}

#[rstest]
#[case::lists_are_answered(true)]
#[case::nothing_is_answered(false)]
fn a_replica_whose_watches_begin_and_say_nothing_is_not_ready(#[case] answers_lists: bool) {
    run(async {
        let (api, mute) = (ApiServer::new(Clock::new()), Mute::of(&["/pods", "/nodes"]));
        let (machine, _serving) = started(&api, &mute, Config::default()).await;
        let readiness = async || call(&machine, "GET", "/readyz", "").await;
        assert!(takes_pods(&machine, "n1").await);
        assert!(readiness().await.starts_with("HTTP/1.1 200"));
        sleep(Duration::from_secs(200)).await;
        assert!(readiness().await.starts_with("HTTP/1.1 200"), "nothing happens, and watches end in time");
        let connected = |value| format!("neuron_extender_watch_connected{{watch=\"pods\"}} {value}");
        assert!(shows(&machine, &connected(1)).await);

        mute.watches.store(true, Ordering::SeqCst);
        mute.lists.store(!answers_lists, Ordering::SeqCst);
        create_node(&api, "n3").await;
        let (since, listed) = (Instant::now(), mute.listed.load(Ordering::SeqCst));
        let told = loop {
            let told = readiness().await;
            if told.starts_with("HTTP/1.1 503") {
                break told;
            }
            assert!(
                since.elapsed() <= LIMIT,
                "ready after {:?} in which no watch said anything",
                since.elapsed()
            );
            sleep(Duration::from_secs(1)).await;
        };
        assert!(since.elapsed() > Duration::from_secs(30), "others know no more");
        assert!(told.contains("the watch of ") && told.contains(" has told nothing for 3"), "{told}");
        // The other watch may have begun later.
        sleep(LIMIT.saturating_sub(since.elapsed())).await;
        assert!(readiness().await.starts_with("HTTP/1.1 503"));
        assert!(shows(&machine, &connected(0)).await);
        assert!(mute.listed.load(Ordering::SeqCst) > listed, "nothing was listed again");
        // What is known is as old as the list: who fits is placed, nobody is refused.
        assert_eq!(takes_pods(&machine, "n3").await, answers_lists);
        let answer = filter(&machine, 3, &["n1"]).await;
        let error = answer["Error"].as_str().unwrap();
        assert!(error.contains("the watch of pods and nodes is disconnected"), "{answer}");

        mute.watches.store(false, Ordering::SeqCst);
        mute.lists.store(false, Ordering::SeqCst);
        // What is left of a call that nobody answers, a pause, and a watch that ends when it was asked to.
        sleep(Duration::from_secs(30 + 5 + 10 + 1)).await;
        assert!(readiness().await.starts_with("HTTP/1.1 200"));
        assert!(takes_pods(&machine, "n3").await);
        assert_eq!(filter(&machine, 3, &["n1"]).await["Error"], "", "a refusal is one again");
    });
}

fn leases(api: &ApiServer, namespace: &str) -> Api<Lease> {
    Api::namespaced(api.client(), namespace)
}

/// The plugin of each node has a Lease of 40 s, as plugins have.
async fn create_leases(api: &ApiServer, namespace: &str) {
    for node in ["n1", "n2"] {
        create_lease(api, namespace, node, "2024-10-04T00:00:00.000000Z").await;
    }
}

async fn create_lease(api: &ApiServer, namespace: &str, node: &str, renewed: &str) {
    let spec = json!({"leaseDurationSeconds": 40, "renewTime": renewed});
    let lease = json!({"metadata": {"name": format!("neuron-device-plugin-{node}")}, "spec": spec});
    let lease = serde_json::from_value(lease).unwrap();
    leases(api, namespace).create(&PostParams::default(), &lease).await.unwrap();
}

/// As after a rollout of the extender: nobody has seen before that n1's plugin does not renew its Lease.
#[test]
fn a_node_whose_plugin_was_dead_before_the_extender_began_takes_no_pods() {
    run(async {
        let (api, mute) = (ApiServer::new(Clock::new()), Mute::default());
        let renewed = "2024-10-03T00:00:00.000000Z";
        create_lease(&api, "kube-system", "n1", renewed).await;
        create_lease(&api, "kube-system", "n2", "2024-10-04T00:00:00.000000Z").await;
        let (machine, _serving) = started(&api, &mute, Config::default()).await;
        sleep(Duration::from_secs(1)).await;
        let answer = filter(&machine, 1, &["n1", "n2"]).await;
        assert_eq!(answer["NodeNames"], json!(["n2"]), "{answer}");
        assert!(
            answer["FailedNodes"]["n1"].as_str().unwrap().contains("has not renewed its Lease"),
            "{answer}"
        );
        // It lives, and its clock is a day behind.
        let patch = Patch::Merge(json!({"spec": {"renewTime": "2024-10-03T00:00:10.000000Z"}}));
        let parameters = PatchParams::default();
        leases(&api, "kube-system").patch("neuron-device-plugin-n1", &parameters, &patch).await.unwrap();
        sleep(Duration::from_secs(1)).await;
        assert!(takes_pods(&machine, "n1").await);
    });
}

/// Nothing is renewed in the plugins' namespace then, and the API server sends bookmarks alone.
#[test]
fn where_all_plugins_are_dead_no_node_takes_pods() {
    run(async {
        let (api, mute) = (ApiServer::new(Clock::new()), Mute::default());
        let namespace = serde_json::from_value(json!({"metadata": {"name": "neuron"}})).unwrap();
        Api::<Namespace>::all(api.client()).create(&PostParams::default(), &namespace).await.unwrap();
        create_leases(&api, "neuron").await;
        let config = Config { plugin_namespace: "neuron".to_owned(), ..Config::default() };
        let (machine, _serving) = started(&api, &mute, config).await;
        assert!(takes_pods(&machine, "n1").await && takes_pods(&machine, "n2").await);
        let began = Instant::now();
        while takes_pods(&machine, "n1").await || takes_pods(&machine, "n2").await {
            assert!(began.elapsed() < Duration::from_secs(40 + 20 + 2), "a dead node takes pods");
            sleep(Duration::from_secs(1)).await;
        }
        assert!(began.elapsed() > Duration::from_secs(40 + 20 - 2), "{:?}", began.elapsed());
        for _ in 0..300 {
            sleep(Duration::from_secs(1)).await;
            let answer = filter(&machine, 2, &["n1", "n2"]).await;
            assert_eq!(answer["NodeNames"], json!([]), "after {:?}", began.elapsed());
            assert!(answer["FailedNodes"]["n1"].as_str().unwrap().contains("has not renewed its Lease"));
        }
    });
}

/// Whether or not lists are answered.
#[rstest]
#[case::lists_are_answered(true)]
#[case::nothing_is_answered(false)]
fn plugins_whose_renewals_are_not_seen_do_not_count_as_dead(#[case] answers_lists: bool) {
    run(async {
        let (api, mute) = (ApiServer::new(Clock::new()), Mute::of(&["/leases"]));
        create_leases(&api, "kube-system").await;
        let (machine, _serving) = started(&api, &mute, Config::default()).await;
        for second in 0..180 {
            if second % 10 == 0 {
                for node in ["n1", "n2"] {
                    let time = format!("2024-10-04T00:{:02}:{:02}.000000Z", second / 60, second % 60);
                    let patch = Patch::Merge(json!({"spec": {"renewTime": time}}));
                    let (name, parameters) = (format!("neuron-device-plugin-{node}"), PatchParams::default());
                    leases(&api, "kube-system").patch(&name, &parameters, &patch).await.unwrap();
                }
            }
            if second == 39 {
                mute.watches.store(true, Ordering::SeqCst);
                mute.lists.store(!answers_lists, Ordering::SeqCst);
            }
            for node in ["n1", "n2"] {
                assert!(takes_pods(&machine, node).await, "{node} takes no pod after {second} s");
            }
            sleep(Duration::from_secs(1)).await;
        }
        assert!(call(&machine, "GET", "/readyz", "").await.starts_with("HTTP/1.1 200"), "pods are placed");
        assert!(shows(&machine, "neuron_extender_watch_connected{watch=\"leases\"} 0").await);
    });
}
