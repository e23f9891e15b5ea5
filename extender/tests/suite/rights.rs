//! A replica that has lost the right to list and watch is not ready, and refuses nothing by what it knew before; one that has lost it
//! for Leases places pods, and says so. In simulated time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use http::{Request, Response};
use k8s_openapi::api::core::v1::Node;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use neuron_extender::{Config, serve};
use rstest::rstest;
use runtime::system::Task;
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::logs::Log;
use crate::machine::Machine;
use crate::simulated::{DAY, address, call, post, run};
use crate::support::{node, pod};

/// A watch that is open when a right goes lasts for a minute at most: the API server asks about rights only as one begins. For half a
/// minute more others know no more either.
const LIMIT: Duration = Duration::from_secs(60 + 30);

/// The rights of the extender, of which some may be gone.
#[derive(Clone)]
struct Rights {
    /// What may be neither listed nor watched while they are.
    paths: &'static [&'static str],
    /// Whether it may still be listed.
    lists_stay: bool,
    are_gone: Arc<AtomicBool>,
}

impl Rights {
    fn forbid(&self, request: &Request<Body>) -> bool {
        let watches = request.uri().query().unwrap_or_default().contains("watch=true");
        let is_gone = watches || !self.lists_stay;
        is_gone && self.are_gone.load(Ordering::SeqCst) && self.paths.contains(&request.uri().path())
    }

    /// A client that has them.
    fn client(&self, api: &ApiServer) -> Client {
        let (router, rights) = (api.router(), self.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (router, rights) = (router.clone(), rights.clone());
            async move {
                let path = request.uri().path().to_owned();
                if !rights.forbid(&request) {
                    return Ok::<_, tower::BoxError>(router.oneshot(request).await?);
                }
                let kind = path.rsplit('/').next().unwrap_or_default();
                let user = "system:serviceaccount:kube-system:k8s-neuron-scheduler";
                let message = format!(
                    "{kind} is forbidden: User \"{user}\" cannot list resource \"{kind}\" in API group \"\" at the cluster scope"
                );
                let body = json!({
                    "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": "Forbidden", "code": 403,
                });
                Ok(Response::builder().status(403).body(axum::body::Body::from(body.to_string()))?)
            }
        });
        Client::new(service, "default")
    }
}

/// An extender with these rights over an inf2.xlarge. It goes on while the task is kept.
async fn started(rights: &Rights) -> (Arc<Machine>, Task<anyhow::Result<()>>) {
    let api = ApiServer::new(Clock::new());
    let nodes: Api<Node> = Api::all(api.client());
    let inf2 = serde_json::from_value(node("n1", "inf2.xlarge")).unwrap();
    nodes.create(&PostParams::default(), &inf2).await.unwrap();
    let machine = Machine::new(DAY, &[]);
    let listener = machine.system().listen(&address()).unwrap();
    let client = rights.client(&api);
    let serving = serve(machine.system(), Config::default(), client, listener, CancellationToken::new());
    let serving = machine.system().spawn(serving);
    (machine, serving)
}

#[rstest]
#[case::pods(&["/api/v1/pods"], false)]
#[case::nodes(&["/api/v1/nodes"], false)]
#[case::both(&["/api/v1/pods", "/api/v1/nodes"], false)]
#[case::watches_of_pods(&["/api/v1/pods"], true)]
#[case::watches_of_nodes(&["/api/v1/nodes"], true)]
fn a_replica_without_rights_is_not_ready_within_its_limit(
    #[case] paths: &'static [&'static str],
    #[case] lists_stay: bool,
) {
    run(async {
        let (log, _guard) = Log::start();
        let rights = Rights { paths, lists_stay, are_gone: Arc::default() };
        let (machine, _serving) = started(&rights).await;
        let readiness = async || call(&machine, "GET", "/readyz", "").await;
        let fits = async || {
            let asks = json!({"Pod": pod("asks", "neuroncore", 2), "NodeNames": ["n1", "elsewhere"]});
            post(&machine, "/filter", asks).await.contains(r#""NodeNames":["n1"]"#)
        };
        assert!(fits().await);
        assert!(readiness().await.starts_with("HTTP/1.1 200"));

        rights.are_gone.store(true, Ordering::SeqCst);
        let since = Instant::now();
        let told = loop {
            let told = readiness().await;
            if told.starts_with("HTTP/1.1 503") {
                break told;
            }
            assert!(since.elapsed() <= LIMIT, "ready {:?} after its rights were lost", since.elapsed());
            sleep(Duration::from_secs(1)).await;
        };
        assert!(since.elapsed() > Duration::from_secs(30), "others know no more");
        assert!(told.contains("the watch of ") && told.contains(" has told nothing for 3"), "{told}");
        for path in paths {
            let kind = path.trim_start_matches("/api/v1/");
            let lines = log.lines(&format!("{kind} is forbidden"));
            assert!(lines.iter().any(|line| line.starts_with("WARN the watch is disconnected")), "{lines:?}");
        }
        // A pod that no node takes is not refused by what is old.
        let elsewhere = json!({"Pod": pod("asks", "neuron", 1), "NodeNames": ["elsewhere"]});
        let answer = post(&machine, "/filter", elsewhere).await;
        assert!(answer.contains("the watch of pods and nodes is "), "{answer}");

        rights.are_gone.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(10)).await;
        assert!(readiness().await.starts_with("HTTP/1.1 200"));
        assert!(fits().await);
    });
}

/// Node health is a help, and pods are placed without it; that it is gone shows in the metrics, for who has alerts.
#[test]
fn a_replica_without_the_right_to_leases_places_pods_and_says_so() {
    run(async {
        let (log, _guard) = Log::start();
        let paths: &[&str] = &["/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"];
        let rights = Rights { paths, lists_stay: false, are_gone: Arc::default() };
        let (machine, _serving) = started(&rights).await;
        let metrics = async || call(&machine, "GET", "/metrics", "").await;
        let shows = |metrics: &str, line: &str| metrics.lines().any(|shown| shown == line);
        let connected = |value| format!("neuron_extender_watch_connected{{watch=\"leases\"}} {value}");
        sleep(Duration::from_secs(1)).await;
        let shown = metrics().await;
        assert!(shows(&shown, &connected(1)), "{shown}");
        assert!(shown.contains("neuron_extender_watch_age_seconds{watch=\"leases\"} 1."), "{shown}");

        rights.are_gone.store(true, Ordering::SeqCst);
        let since = Instant::now();
        while !shows(&metrics().await, &connected(0)) {
            assert!(since.elapsed() <= LIMIT, "connected {:?} after its rights were lost", since.elapsed());
            sleep(Duration::from_secs(1)).await;
        }
        let lines = log.lines("leases is forbidden");
        assert!(lines.iter().any(|line| line.starts_with("WARN the watch is disconnected")), "{lines:?}");
        sleep(LIMIT).await;
        assert!(call(&machine, "GET", "/readyz", "").await.starts_with("HTTP/1.1 200"));
        let asks = json!({"Pod": pod("asks", "neuroncore", 2), "NodeNames": ["n1"]});
        assert!(post(&machine, "/filter", asks).await.contains(r#""NodeNames":["n1"]"#));
        let shown = metrics().await;
        assert!(shows(&shown, &connected(0)), "{shown}");

        rights.are_gone.store(false, Ordering::SeqCst);
        sleep(Duration::from_secs(10)).await;
        let shown = metrics().await;
        assert!(shows(&shown, &connected(1)), "{shown}");
    });
}
