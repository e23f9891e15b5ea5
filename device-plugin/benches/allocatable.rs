//! How long kubelet offers something else than what is so, and what the plugin's process takes of memory:
//!
//! ```sh
//! cargo bench -p neuron-device-plugin --bench allocatable
//! ```
//!
//! The program itself, on a fake trn2.48xlarge beside fake-cluster's kubelet and API server; kubelet is asked what it offers
//! (GetAllocatableResources) every two milliseconds. A real kubelet writes its node's status up to ten seconds later.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "what is measured is this machine's time")]

use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::kubelet::{ContainerRun, ContainerRuntime, ContainerStart, Kubelet, KubeletConfig};
use fake_neuron::Machine;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kubelet_api::podresources::v1::AllocatableResourcesRequest;
use kubelet_api::podresources::v1::pod_resources_lister_client::PodResourcesListerClient;
use kubelet_api::unix::connect;
use neuron_core::names::{NEURON, NEURONCORE};
use neuron_device_plugin::System;
use runtime::system::Address;
use serde_json::json;
use tokio_util::sync::CancellationToken;

const NODE: &str = "n1";
const DEVICES: usize = 16;
const ROUNDS: usize = 10;
/// Time between two questions.
const ASKED_EVERY: Duration = Duration::from_millis(2);
/// What takes longer is no measurement.
const LIMIT: Duration = Duration::from_secs(60);

/// Pods that run, each with a core.
const PODS: usize = 64;

/// Containers that run until their pod is deleted.
struct Containers;

impl ContainerRuntime for Containers {
    fn start(&self, _container: &ContainerStart) -> ContainerRun {
        ContainerRun::default()
    }
}

/// The program; dropping it kills it.
struct Plugin(Child);

impl Plugin {
    fn start(dir: &Path, api: SocketAddr) -> Self {
        let kubeconfig = dir.join("kubeconfig");
        let text = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{api}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {}}],
        });
        std::fs::write(&kubeconfig, text.to_string()).expect("a kubeconfig");
        let mut program = Command::new(env!("CARGO_BIN_EXE_neuron-device-plugin"));
        program.args(["--node-name", NODE, "--kubeconfig"]).arg(kubeconfig);
        program.arg("--root").arg(dir.join("root")).arg("--kubelet-dir").arg(dir.join("kubelet"));
        program.stdout(Stdio::null()).stderr(Stdio::null());
        Self(program.spawn().expect("the device plugin"))
    }

    /// What is resident of its memory, in MiB.
    fn resident(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).expect("its status");
        let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its VmRSS");
        kibibytes.trim().trim_end_matches(" kB").parse::<f64>().expect("a number of kB") / 1024.0
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        // One that has ended is waited for all the same.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// How many devices kubelet offers; none while it does not answer.
async fn offered(socket: &Path) -> Option<usize> {
    let mut lister = PodResourcesListerClient::new(connect(socket).await.ok()?);
    let answer = lister.get_allocatable_resources(AllocatableResourcesRequest {}).await.ok()?;
    let devices = answer.into_inner().devices.into_iter().filter(|devices| devices.resource_name == NEURON);
    Some(devices.map(|devices| devices.device_ids.len()).sum())
}

/// Waits until kubelet offers so many. Milliseconds since `began`.
async fn until(socket: &Path, devices: usize, began: Instant) -> f64 {
    while offered(socket).await != Some(devices) {
        assert!(began.elapsed() < LIMIT, "kubelet does not offer {devices} devices after {LIMIT:?}");
        tokio::time::sleep(ASKED_EVERY).await;
    }
    began.elapsed().as_secs_f64() * 1e3
}

/// Binds pods of one core to the node, and waits until all run.
async fn run_pods(api: &ApiServer) {
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    for number in 0..PODS {
        let resources = json!({"limits": {NEURONCORE: "1"}});
        let containers = json!([{"name": "main", "image": "none", "resources": resources}]);
        let pod = json!({
            "metadata": {"name": format!("p{number}")}, "spec": {"nodeName": NODE, "containers": containers},
        });
        let pod = serde_json::from_value(pod).expect("a pod");
        pods.create(&PostParams::default(), &pod).await.expect("a pod is created");
    }
    let began = Instant::now();
    let runs = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
    while pods.list(&ListParams::default()).await.expect("the pods").iter().filter(|pod| runs(pod)).count()
        < PODS
    {
        assert!(began.elapsed() < LIMIT, "{PODS} pods do not run after {LIMIT:?}");
        tokio::time::sleep(ASKED_EVERY).await;
    }
}

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(measure());
}

async fn measure() {
    let dir = tempfile::tempdir().expect("a folder");
    let machine = Machine::builder("trn2.48xlarge").up(&dir.path().join("root")).expect("a machine");
    let (api, system) = (ApiServer::new(Clock::new()), System::real());
    let listener = system.listen(&Address::Tcp(([127, 0, 0, 1], 0).into())).expect("a port");
    let Address::Tcp(address) = listener.address() else { unreachable!("it listens on TCP") };
    tokio::spawn(api.clone().serve(&system, listener, CancellationToken::new()));
    let config = KubeletConfig::new(NODE, dir.path().join("kubelet"));
    let socket = config.podresources_socket();
    let kubelet = async || {
        let client = api.client();
        let started = Kubelet::start(&system, client, &api, config.clone(), Arc::new(Containers));
        started.await.expect("kubelet")
    };

    let mut running = kubelet().await;
    let mut plugin = Plugin::start(dir.path(), address);
    until(&socket, DEVICES, Instant::now()).await;
    run_pods(&api).await;
    let (mut faults, mut mended, mut kubelets, mut plugins) = (vec![], vec![], vec![], vec![]);
    for _ in 0..ROUNDS {
        let began = Instant::now();
        machine.lose(3).expect("a device to lose");
        faults.push(until(&socket, DEVICES - 1, began).await);
        let began = Instant::now();
        machine.restore(3).expect("its device");
        mended.push(until(&socket, DEVICES, began).await);

        running.stop().await;
        let began = Instant::now();
        running = kubelet().await;
        kubelets.push(until(&socket, DEVICES, began).await);

        let began = Instant::now();
        drop(plugin);
        until(&socket, 0, began).await;
        plugin = Plugin::start(dir.path(), address);
        plugins.push(until(&socket, DEVICES, began).await);
    }
    println!("milliseconds until kubelet offers what is so, the median of {ROUNDS} and the longest:");
    for (what, times) in [
        ("a device node is gone", &mut faults),
        ("it is back", &mut mended),
        ("kubelet was started again", &mut kubelets),
        ("the plugin was killed, and started again", &mut plugins),
    ] {
        times.sort_by(f64::total_cmp);
        println!("{what:40} {:7.0} {:7.0}", times[ROUNDS / 2], times[ROUNDS - 1]);
    }
    println!("MiB resident, with {PODS} pods: {:.1}", plugin.resident());
    running.stop().await;
}
