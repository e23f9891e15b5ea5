//! What kubelet's calls cost beside an empty gRPC call on the same socket:
//!
//! ```sh
//! cargo bench -p neuron-device-plugin --bench calls
//! ```
//!
//! A node of 16 devices with 8 cores each, on which 64 pods run with a core each, and one waits. Absolute figures are the machine's;
//! what counts is the ratios, taken round by round.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "what is measured is this machine's time")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_neuron::{Machine, MachineSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::registration_server::{Registration, RegistrationServer};
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Empty,
    PreferredAllocationRequest, RegisterRequest,
};
use kubelet_api::unix::{connect, incoming, listen};
use neuron_core::catalog::Catalog;
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_device_plugin::{Config, System, run};
use serde_json::{Value, json};
use testkit_support::eventually;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

const NODE: &str = "n1";
/// Pods that run.
const PODS: u8 = 64;
/// Cores of the node.
const CORES: u8 = 128;
const ROUNDS: usize = 60;
/// Calls of each kind in a round.
const CALLS: usize = 40;

/// Takes registrations as kubelet does, and dials nobody back.
struct Kubelet(watch::Sender<Vec<(String, String)>>);

#[tonic::async_trait]
impl Registration for Kubelet {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        self.0.send_modify(|all| all.push((request.resource_name, request.endpoint)));
        Ok(Response::new(Empty {}))
    }
}

/// What is measured.
#[derive(Clone, Copy)]
enum Call {
    Empty,
    Allocate,
    Preferred,
    FirstList,
}

/// The plugin's socket, and kubelet's folder.
struct Bench {
    plugin: DevicePluginClient<Channel>,
    checkpoint: PathBuf,
}

impl Bench {
    /// Microseconds of a call, the mean of a round. With `replaced`, kubelet's checkpoint is another file before each.
    async fn round(&mut self, call: Call, replaced: bool) -> f64 {
        let mut spent = 0.0;
        for _ in 0..CALLS {
            if replaced {
                replace(&self.checkpoint);
            }
            spent += self.call(call).await;
        }
        spent * 1e6 / CALLS as f64
    }

    /// Seconds that a call takes.
    async fn call(&mut self, call: Call) -> f64 {
        let (allocate, preferred) = (allocate_request(), preferred_request());
        let began = Instant::now();
        match call {
            Call::Empty => drop(self.plugin.get_device_plugin_options(Empty {}).await.expect("options")),
            Call::Allocate => drop(self.plugin.allocate(allocate).await.expect("an answer to Allocate")),
            Call::Preferred => {
                let answer = self.plugin.get_preferred_allocation(preferred).await.expect("a preference");
                assert_eq!(answer.into_inner().container_responses[0].device_i_ds, [id(PODS)]);
            }
            Call::FirstList => {
                let lists = self.plugin.list_and_watch(Empty {}).await.expect("a stream");
                let list = lists.into_inner().message().await.expect("a list").expect("a list");
                assert_eq!(list.devices.len(), usize::from(CORES));
            }
        }
        began.elapsed().as_secs_f64()
    }
}

fn allocate_request() -> AllocateRequest {
    AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids: vec![id(PODS)] }] }
}

fn preferred_request() -> PreferredAllocationRequest {
    let container = ContainerPreferredAllocationRequest {
        available_device_i_ds: (PODS..CORES).map(id).collect(),
        must_include_device_i_ds: Vec::new(),
        allocation_size: 1,
    };
    PreferredAllocationRequest { container_requests: vec![container] }
}

fn id(core: u8) -> String {
    format!("neuroncore{core}")
}

/// Puts a file with the same content in the checkpoint's place, as kubelet does when it writes.
fn replace(checkpoint: &Path) {
    let beside = checkpoint.with_extension("new");
    std::fs::copy(checkpoint, &beside).expect("a copy of the checkpoint");
    std::fs::rename(beside, checkpoint).expect("the copy in the checkpoint's place");
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let dir = tempfile::tempdir().expect("a folder");
    let spec = MachineSpec {
        instance_type: "trn2.48xlarge".to_owned(),
        lnc: Some(1),
        instance_id: None,
        driver: None,
    };
    let root = dir.path().join("r");
    Machine::up(&spec, &root, Catalog::embedded()).expect("a machine");
    let api = ApiServer::new(Clock::new());
    let nodes: Api<Node> = Api::all(api.client());
    let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).expect("a node");
    nodes.create(&PostParams::default(), &node).await.expect("a node");
    let kubelet_dir = dir.path().join("k");
    let checkpoint = kubelet_dir.join("device-plugins/kubelet_internal_checkpoint");
    std::fs::create_dir_all(kubelet_dir.join("device-plugins")).expect("kubelet's plugin folder");
    let mut entries = Vec::new();
    for core in 0..=PODS {
        let pod = place(&api, core).await;
        if core < PODS {
            entries.push(json!({
                "PodUID": pod.metadata.uid, "ContainerName": "main", "ResourceName": NEURONCORE,
                "DeviceIDs": {"-1": [id(core)]}, "AllocResp": "",
            }));
        }
    }
    let devices: Vec<String> = (0..16).map(|device| format!("neuron{device}")).collect();
    let registered = json!({NEURON: devices, NEURONCORE: (0..CORES).map(id).collect::<Vec<_>>()});
    let data = json!({"PodDeviceEntries": entries, "RegisteredDevices": registered});
    let text = json!({"Data": data, "Checksum": 1}).to_string();
    std::fs::write(&checkpoint, text).expect("the checkpoint");

    let kubelet = Arc::new(Kubelet(watch::Sender::default()));
    let socket = listen(&kubelet_dir.join("device-plugins/kubelet.sock")).expect("kubelet's socket");
    let server = Server::builder().add_service(RegistrationServer::from_arc(Arc::clone(&kubelet)));
    tokio::spawn(server.serve_with_incoming(incoming(socket)));
    // The plugin has a thread of its own, as it has a process of its own.
    let config = Config { root, kubelet_dir: kubelet_dir.clone(), ..Config::new(NODE) };
    let (client, shutdown) = (api.client(), CancellationToken::new());
    let stop = shutdown.clone();
    let plugin = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(run(System::real(), config, client, stop))
    });
    let socket = eventually("a registration of cores", async || {
        kubelet.0.borrow().iter().find(|(name, _)| name == NEURONCORE).map(|(_, socket)| socket.clone())
    });
    let socket = kubelet_dir.join("device-plugins").join(socket.await);
    let mut client = DevicePluginClient::new(connect(&socket).await.expect("the plugin's socket"));
    // As kubelet does: a plugin whose list nobody takes serves on another socket.
    let mut lists = client.list_and_watch(Empty {}).await.expect("a stream").into_inner();
    let kept = tokio::spawn(async move { while let Ok(Some(_)) = lists.message().await {} });
    report(&mut Bench { plugin: client, checkpoint }).await;
    kept.abort();
    shutdown.cancel();
    plugin.join().expect("the plugin's thread").expect("the plugin's end");
}

/// Creates a pod that asks for one core, bound with a record of this one; all but the last run.
async fn place(api: &ApiServer, core: u8) -> Pod {
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let name = format!("p{core}");
    let limits = json!({NEURONCORE: "1"});
    let spec = json!({"containers": [{"name": "main", "image": "none", "resources": {"limits": limits}}]});
    let pod = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).expect("a pod");
    let pod: Pod = pods.create(&PostParams::default(), &pod).await.expect("a pod");
    let given =
        ContainerAllocation { devices: Default::default(), cores: core.to_string().parse().expect("a core") };
    let containers = [("main".to_owned(), given)].into_iter().collect();
    let allocation = Allocation { node: NODE.to_owned(), lnc: 1, containers };
    let annotations = allocation.annotations(core < PODS, "1767225600000000000");
    let target = json!({"apiVersion": "v1", "kind": "Node", "name": NODE});
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "annotations": annotations},
        "target": target,
    });
    let params = PostParams::default();
    let _: Value = pods.create_subresource("binding", &name, &params, &binding).await.expect("a binding");
    if core < PODS {
        let status = json!({"name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0,
            "state": {"running": {}}});
        let status = json!({"status": {"phase": "Running", "containerStatuses": [status]}});
        let patched = pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(&status)).await;
        patched.expect("a status");
    }
    pod
}

/// Measures and prints every ratio: the median of all rounds, and where the middle half of them lies.
async fn report(bench: &mut Bench) {
    let kinds = [
        ("Allocate", Call::Allocate, false),
        ("GetPreferredAllocation", Call::Preferred, false),
        ("the first list of a stream", Call::FirstList, false),
        ("Allocate, checkpoint replaced", Call::Allocate, true),
        ("GetPreferredAllocation, checkpoint replaced", Call::Preferred, true),
    ];
    let mut ratios = vec![Vec::new(); kinds.len()];
    let mut empty = Vec::new();
    // The first round warms up.
    for round in 0..=ROUNDS {
        for (kind, ratios) in kinds.iter().zip(&mut ratios) {
            let before = bench.round(Call::Empty, false).await;
            let spent = bench.round(kind.1, kind.2).await;
            let after = bench.round(Call::Empty, false).await;
            if round > 0 {
                ratios.push(2.0 * spent / (before + after));
                empty.push(before);
            }
        }
    }
    println!("an empty call: {:.0} us", quantile(&mut empty, 0.5));
    for ((name, ..), ratios) in kinds.iter().zip(&mut ratios) {
        let [low, middle, high] = [0.25, 0.5, 0.75].map(|part| quantile(ratios, part));
        println!("{name:45} {middle:5.2} of an empty call ({low:.2} to {high:.2})");
    }
}

fn quantile(values: &mut [f64], part: f64) -> f64 {
    values.sort_by(f64::total_cmp);
    values[((values.len() - 1) as f64 * part).round() as usize]
}
