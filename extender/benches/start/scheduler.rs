//! Who binds, as a process of its own: pods to one node, at once, by raw Bindings as kube-scheduler does by itself, by an extender that
//! only passes them on, and by ours. Says for each round how many seconds each took.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use futures::future::try_join_all;
use http::header::CONTENT_TYPE;
use http::{Method, Request};
use http_body_util::BodyExt as _;
use k8s_pb::api::core::v1::{Binding, ObjectReference};
use k8s_pb::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Client;
use kube::client::Body;
use neuron_core::names::NEURONCORE;
use runtime::protobuf::{MEDIA_TYPE, wrap};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

use crate::ways::client_of;

/// The node, and its type: 64 logical cores.
pub(crate) const NODE: &str = "n1";
pub(crate) const TYPE: &str = "trn2.48xlarge";
/// Pods that are bound at once, each with a core.
pub(crate) const PODS: usize = 40;

/// Single rounds scatter by a fifth at a real API server, of whose work a good part is done in the background.
const ROUNDS: usize = 205;
/// Whom the pods wait for: no scheduler that a real cluster has.
const SCHEDULER: &str = "neuron-bench";
const COLLECTION: &str = "/api/v1/namespaces/default/pods";
const JSON: &str = "application/json";

/// Longest wait until the extender has seen something.
const LONGEST: Duration = Duration::from_secs(10);

/// The ways to bind, in the order in which their times are said.
#[derive(Clone, Copy)]
enum Way {
    Raw,
    Passing,
    Ours,
}

impl Way {
    const ALL: [Way; 3] = [Way::Raw, Way::Passing, Way::Ours];
}

/// The servers, by their clients.
struct Servers {
    /// An API server that the extender does not follow, or the same.
    apart: Client,
    /// The one that the extender follows.
    api: Client,
    /// Binds at the one apart.
    passing: Client,
    extender: Client,
}

/// The addresses, or the kubeconfig files, of an API server apart and of the extender's, and the addresses of the passing extender and of
/// ours.
pub(crate) fn run(apart: &str, api: &str, passing: &str, extender: &str) -> ExitCode {
    runtime::log(runtime::LogFormat::Text);
    runtime::run_program("scheduler", async {
        let servers = Servers {
            apart: client_of(apart).await?,
            api: client_of(api).await?,
            passing: client_of(passing).await?,
            extender: client_of(extender).await?,
        };
        for round in 0..ROUNDS {
            let mut seconds = [0.0; Way::ALL.len()];
            let mut order = Way::ALL;
            // Every second time the other way round, so that none always finds what another one has left behind.
            if !round.is_multiple_of(2) {
                order.reverse();
            }
            for way in order {
                seconds[way as usize] = servers.bind(way, round).await?.as_secs_f64();
            }
            println!("{}", seconds.map(|seconds| seconds.to_string()).join(" "));
        }
        Ok(())
    })
}

impl Servers {
    /// How long it takes to bind pods that are made for it.
    async fn bind(&self, way: Way, round: usize) -> anyhow::Result<Duration> {
        let Self { apart, api, passing, extender } = self;
        if let Way::Ours = way {
            return ours(api, extender, round).await;
        }
        let pods = create(apart, round).await?;
        let took = match way {
            Way::Passing => at_once(&pods, |pod| bind(passing, pod)).await?,
            _ => at_once(&pods, |pod| post_binding(apart, &pod.name, &pod.uid)).await?,
        };
        delete(apart, &pods).await?;
        Ok(took)
    }
}

/// How long it takes our extender to bind pods that are made for it, and that it has admitted.
async fn ours(api: &Client, extender: &Client, round: usize) -> anyhow::Result<Duration> {
    let pods = create(api, round).await?;
    shows(extender, &format!("neuron_extender_pods_waiting {PODS}")).await?;
    for pod in &pods {
        filter(extender, pod).await?;
    }
    let took = at_once(&pods, |pod| bind(extender, pod)).await?;
    delete(api, &pods).await?;
    let held = format!("{{node=\"{NODE}\",instance_type=\"{TYPE}\",state=\"held\"}}");
    shows(extender, &format!("neuron_extender_cores{held} 0")).await?;
    Ok(took)
}

/// A pod as the API server has it, and what of it is asked for.
struct Pod {
    name: String,
    uid: String,
    object: Value,
}

async fn create(api: &Client, round: usize) -> anyhow::Result<Vec<Pod>> {
    let mut pods = Vec::new();
    for number in 0..PODS {
        let limits = json!({NEURONCORE: "1"});
        let container = json!({"name": "main", "image": "app", "resources": {"limits": limits}});
        let name = format!("p-{round}-{number}");
        let spec = json!({"schedulerName": SCHEDULER, "containers": [container]});
        let pod = json!({"metadata": {"name": name}, "spec": spec});
        let object: Value = call(api, Method::POST, COLLECTION, &pod).await?;
        let uid = object["metadata"]["uid"].as_str().context("a pod without a UID")?.to_owned();
        pods.push(Pod { name, uid, object });
    }
    Ok(pods)
}

async fn delete(api: &Client, pods: &[Pod]) -> anyhow::Result<()> {
    for Pod { name, .. } in pods {
        let path = format!("{COLLECTION}/{name}");
        call(api, Method::DELETE, &path, &json!({"gracePeriodSeconds": 0})).await?;
    }
    Ok(())
}

/// How long it takes until the last of them is done.
async fn at_once<'p, F>(pods: &'p [Pod], way: impl Fn(&'p Pod) -> F) -> anyhow::Result<Duration>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let began = Instant::now();
    try_join_all(pods.iter().map(way)).await?;
    Ok(began.elapsed())
}

/// Posts the Binding of the pod with this name and UID as kube-scheduler does by itself.
pub(crate) async fn post_binding(api: &Client, name: &str, uid: &str) -> anyhow::Result<()> {
    let text = |text: &str| Some(text.to_owned());
    let metadata =
        ObjectMeta { name: text(name), uid: text(uid), namespace: text("default"), ..ObjectMeta::default() };
    let target = ObjectReference { kind: text("Node"), name: text(NODE), ..ObjectReference::default() };
    let binding = wrap("Binding", &Binding { metadata: Some(metadata), target: Some(target) });
    let request = Request::post(format!("{COLLECTION}/{name}/binding"));
    let request = request.header(CONTENT_TYPE, MEDIA_TYPE).body(binding)?;
    Ok(runtime::write(api, request, MEDIA_TYPE).await?)
}

async fn filter(extender: &Client, pod: &Pod) -> anyhow::Result<()> {
    let args = json!({"Pod": pod.object, "Nodes": null, "NodeNames": [NODE]});
    let answer = call(extender, Method::POST, "/filter", &args).await?;
    ensure!(answer["NodeNames"] == json!([NODE]), "the node does not take a pod: {answer}");
    Ok(())
}

async fn bind(extender: &Client, pod: &Pod) -> anyhow::Result<()> {
    let args = json!({"PodName": pod.name, "PodNamespace": "default", "PodUID": pod.uid, "Node": NODE});
    let answer = call(extender, Method::POST, "/bind", &args).await?;
    ensure!(answer["Error"] == "", "a pod was not bound: {answer}");
    Ok(())
}

/// Waits until the extender's metrics have this line.
async fn shows(extender: &Client, line: &str) -> anyhow::Result<()> {
    let looks = async {
        loop {
            let request = Request::get("/metrics").body(Body::empty())?;
            let text = extender.send(request).await?.into_body().collect().await?.to_bytes();
            if String::from_utf8_lossy(&text).lines().any(|shown| shown == line) {
                return anyhow::Ok(());
            }
            sleep(Duration::from_millis(2)).await;
        }
    };
    timeout(LONGEST, looks).await.with_context(|| format!("the extender never shows {line}"))?
}

/// What a call is answered, as JSON.
async fn call(client: &Client, method: Method, path: &str, body: &Value) -> anyhow::Result<Value> {
    let request = Request::builder().method(method).uri(path).header(CONTENT_TYPE, JSON);
    let answer = client.send(request.body(Body::from(serde_json::to_vec(body)?))?).await?;
    let status = answer.status();
    let answer = answer.into_body().collect().await?.to_bytes();
    ensure!(status.is_success(), "{path}: {status}: {}", String::from_utf8_lossy(&answer));
    Ok(serde_json::from_slice(&answer)?)
}
