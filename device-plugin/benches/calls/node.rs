//! The node: a fake machine, pods that run or wait, kubelet's checkpoint, and the plugin that serves them. Used by the bench `calls`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_neuron::{Machine, MachineSpec};
use k8s_openapi::api::core::v1;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::registration_server::{Registration, RegistrationServer};
use kubelet_api::deviceplugin::v1beta1::{Empty, ListAndWatchResponse, RegisterRequest};
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
use tonic::{Request, Response, Status, Streaming};

const NODE: &str = "n1";
/// Pods that run.
pub(crate) const PODS: u8 = 64;
/// Cores of the node.
pub(crate) const CORES: u8 = 128;

/// kubelet's id of a core.
pub(crate) fn id(core: u8) -> String {
    format!("neuroncore{core}")
}

/// Runs it until the process ends. A plugin has a process of its own, and so a thread of its own here.
pub(crate) fn on_a_thread(work: impl Future<Output = ()> + Send + 'static) {
    std::thread::spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(work);
    });
}

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

/// A machine with its pods.
pub(crate) struct Node {
    pub(crate) api: ApiServer,
    pub(crate) config: Config,
    pub(crate) checkpoint: PathBuf,
}

impl Node {
    /// A node below this folder on which all but one pod run.
    pub(crate) async fn new(dir: &Path) -> Self {
        let spec = MachineSpec {
            instance_type: "trn2.48xlarge".to_owned(),
            lnc: Some(1),
            instance_id: None,
            driver: None,
        };
        let root = dir.join("r");
        Machine::up(&spec, &root, Catalog::embedded()).expect("a machine");
        let api = ApiServer::new(Clock::new());
        let nodes: Api<v1::Node> = Api::all(api.client());
        let node = serde_json::from_value(json!({"metadata": {"name": NODE}})).expect("a node");
        nodes.create(&PostParams::default(), &node).await.expect("a node");
        let config = Config { root, kubelet_dir: dir.join("k"), ..Config::new(NODE) };
        std::fs::create_dir_all(config.plugin_dir()).expect("kubelet's plugin folder");
        let checkpoint = config.plugin_dir().join("kubelet_internal_checkpoint");
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
        Self { api, config, checkpoint }
    }

    /// The plugin, which runs until the process ends, as kubelet reaches it for cores, and its list: a plugin whose list nobody takes
    /// serves on another socket.
    pub(crate) async fn plugin(&self) -> (DevicePluginClient<Channel>, Streaming<ListAndWatchResponse>) {
        let kubelet = Arc::new(Kubelet(watch::Sender::default()));
        let folder = self.config.plugin_dir();
        let socket = listen(&folder.join("kubelet.sock")).expect("kubelet's socket");
        let server = Server::builder().add_service(RegistrationServer::from_arc(Arc::clone(&kubelet)));
        tokio::spawn(server.serve_with_incoming(incoming(socket)));
        let (config, client) = (self.config.clone(), self.api.client());
        on_a_thread(async move {
            run(System::real(), config, client, CancellationToken::new()).await.expect("the plugin's end");
        });
        let socket = eventually("a registration of cores", async || {
            kubelet.0.borrow().iter().find(|(name, _)| name == NEURONCORE).map(|(_, socket)| socket.clone())
        });
        let socket = folder.join(socket.await);
        let mut plugin = DevicePluginClient::new(connect(&socket).await.expect("the plugin's socket"));
        let lists = plugin.list_and_watch(Empty {}).await.expect("a stream").into_inner();
        (plugin, lists)
    }
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
    let containers = [("main".into(), given)].into_iter().collect();
    let allocation = Allocation { node: NODE.into(), lnc: 1, containers };
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
