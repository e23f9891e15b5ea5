//! One node under test: a fake machine, a kubelet, an API server and the plugin between them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::kubelet::{
    ContainerRun, ContainerRuntime, ContainerStart, FreeChoices, Kubelet, KubeletConfig,
};
use fake_cluster::{System, Version};
use fake_neuron::{Machine, MachineSpec};
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use neuron_core::catalog::Catalog;
use neuron_core::names::{ALLOCATION, NODE_REPORT};
use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_device_plugin::{Config, run};
use serde_json::{Value, json};
use testkit_support::{eventually, within};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) const NODE: &str = "n1";

pub(crate) struct Node {
    pub(crate) api: ApiServer,
    pub(crate) clock: Clock,
    pub(crate) machine: Machine,
    pub(crate) kubelet_config: KubeletConfig,
    pub(crate) config: Config,
    runtime: Arc<Containers>,
    tries: AtomicU32,
    lnc: u8,
    _dir: tempfile::TempDir,
}

/// The plugin while it runs.
pub(crate) struct Plugin {
    shutdown: CancellationToken,
    task: JoinHandle<anyhow::Result<()>>,
}

/// Notes every container and lets it run until its pod is deleted.
#[derive(Default)]
struct Containers(Mutex<Vec<ContainerStart>>);

impl ContainerRuntime for Containers {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        self.0.lock().unwrap().push(container.clone());
        let ends = container.args.first().map(|seconds| (Duration::from_secs(seconds.parse().unwrap()), 0));
        ContainerRun { ends, ..ContainerRun::default() }
    }
}

impl Node {
    pub(crate) fn new(instance_type: &str) -> Self {
        Self::of(Version::default(), instance_type)
    }

    /// A node of a cluster of this version.
    pub(crate) fn of(version: Version, instance_type: &str) -> Self {
        // The plugin's log, for a test that fails; RUST_LOG says more of it.
        let filter = tracing_subscriber::EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into());
        let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("r");
        let spec = MachineSpec {
            instance_type: instance_type.to_owned(),
            lnc: None,
            instance_id: None,
            driver: None,
        };
        let machine = Machine::up(&spec, &root, Catalog::embedded()).unwrap();
        let clock = Clock::new();
        let kubelet_config = KubeletConfig {
            free_choices: FreeChoices::Seeded(1),
            ..KubeletConfig::new(NODE, dir.path().join("k"))
        };
        let config = Config {
            root,
            kubelet_dir: kubelet_config.dir.clone(),
            poll: Duration::from_millis(100),
            health_interval: Duration::from_millis(100),
            report_interval: Duration::from_millis(500),
            holder_timeout: Duration::from_millis(500),
            ..Config::new(NODE)
        };
        let lnc = Catalog::embedded().find(instance_type).map_or(1, |known| known.default_lnc);
        let api = ApiServer::new(clock.clone()).with_version(version);
        let (runtime, tries) = (Arc::default(), AtomicU32::new(0));
        Node { api, clock, machine, kubelet_config, config, runtime, tries, lnc, _dir: dir }
    }

    /// A machine with its kubelet and plugin, once every device can be asked for.
    pub(crate) async fn running(instance_type: &str) -> (Self, Kubelet, Plugin) {
        Self::running_of(Version::default(), instance_type).await
    }

    /// As [`Self::running`], in a cluster of this version.
    pub(crate) async fn running_of(version: Version, instance_type: &str) -> (Self, Kubelet, Plugin) {
        let node = Node::of(version, instance_type);
        let kubelet = node.kubelet().await;
        let plugin = node.plugin();
        let devices = usize::from(node.machine.devices());
        node.shows("aws.amazon.com/neuron", devices).await;
        let known = Catalog::embedded().find(instance_type).unwrap();
        let cores = devices * usize::from(known.cores_per_device / known.default_lnc);
        node.shows("aws.amazon.com/neuroncore", cores).await;
        (node, kubelet, plugin)
    }

    pub(crate) async fn kubelet(&self) -> Kubelet {
        let (system, client) = (System::real(), self.api.client());
        let kubelet =
            Kubelet::start(&system, client, &self.api, self.kubelet_config.clone(), self.runtime.clone());
        kubelet.await.unwrap()
    }

    pub(crate) fn plugin(&self) -> Plugin {
        self.plugin_on(System::real())
    }

    pub(crate) fn plugin_on(&self, system: System) -> Plugin {
        self.plugin_of(system, self.api.client())
    }

    /// The plugin with another way to an API server.
    pub(crate) fn plugin_with(&self, client: kube::Client) -> Plugin {
        self.plugin_of(System::real(), client)
    }

    pub(crate) fn plugin_of(&self, system: System, client: kube::Client) -> Plugin {
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(system, self.config.clone(), client, shutdown.clone()));
        Plugin { shutdown, task }
    }

    pub(crate) fn socket(&self, name: &str) -> PathBuf {
        self.config.plugin_dir().join(name)
    }

    /// The names of the sockets that serve `aws.amazon.com/neuron`, and of those that killed plugins left.
    pub(crate) fn sockets(&self) -> BTreeSet<String> {
        self.sockets_of("neuron-devplugin")
    }

    pub(crate) fn sockets_of(&self, files: &str) -> BTreeSet<String> {
        let entries = std::fs::read_dir(self.config.plugin_dir()).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().into_string().unwrap());
        names.filter(|name| name.starts_with(&format!("{files}-")) && name.ends_with(".sock")).collect()
    }

    pub(crate) fn pods(&self) -> Api<Pod> {
        Api::default_namespaced(self.api.client())
    }

    pub(crate) fn record(&self, containers: &[(&str, &str, &str)]) -> BTreeMap<String, String> {
        let containers = containers.iter().map(|(name, devices, cores)| {
            let given =
                ContainerAllocation { devices: devices.parse().unwrap(), cores: cores.parse().unwrap() };
            ((*name).into(), given)
        });
        Allocation { node: NODE.into(), lnc: self.lnc, containers: containers.collect() }
            .annotations(false, "1767225600000000000")
    }

    /// Creates a pod that waits for a scheduler.
    pub(crate) async fn create(&self, name: &str, spec: Value) {
        let pod = json!({ "metadata": { "name": name }, "spec": spec });
        self.pods().create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    /// Binds a pod with these annotations, as an extender does; a second later than what came before.
    pub(crate) async fn bind(&self, name: &str, annotations: &BTreeMap<String, String>) {
        self.clock.advance(Duration::from_secs(1));
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": { "name": name, "annotations": annotations },
            "target": { "apiVersion": "v1", "kind": "Node", "name": NODE },
        });
        let params = PostParams::default();
        let _: Value = self.pods().create_subresource("binding", name, &params, &binding).await.unwrap();
    }

    /// Creates and binds a pod with a record.
    pub(crate) async fn place(&self, name: &str, spec: Value, record: &[(&str, &str, &str)]) {
        self.create(name, spec).await;
        let annotations = if record.is_empty() { BTreeMap::new() } else { self.record(record) };
        self.bind(name, &annotations).await;
    }

    pub(crate) async fn delete(&self, name: &str) {
        self.pods().delete(name, &DeleteParams::default()).await.unwrap();
        self.clock.advance(Duration::from_secs(60));
        eventually(&format!("{name} to be gone"), async || {
            self.clock.advance(Duration::from_secs(10));
            self.pods().get_opt(name).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    pub(crate) async fn phase(&self, name: &str, phase: &str) -> Pod {
        eventually(&format!("{name} to be {phase}"), async || {
            let pod = self.pods().get(name).await.unwrap();
            let now = pod.status.as_ref()?;
            let ended = now.phase.as_deref() == Some("Failed") && phase != "Failed";
            assert!(!ended, "{name} failed: {:?}", now.message);
            (now.phase.as_deref() == Some(phase)).then_some(pod)
        })
        .await
    }

    pub(crate) async fn annotation(&self, pod: &str, key: &str) -> Option<String> {
        self.pods().get(pod).await.unwrap().metadata.annotations?.remove(key)
    }

    /// Waits until a pod's record gives its containers exactly this.
    pub(crate) async fn recorded(&self, pod: &str, containers: &[(&str, &str, &str)]) {
        let right = self.record(containers).remove(ALLOCATION);
        eventually(&format!("{pod} to be recorded with {containers:?}"), async || {
            (self.annotation(pod, ALLOCATION).await == right).then_some(())
        })
        .await;
    }

    /// A pod runs and is deleted again. Until kubelet has heard of a change it may refuse a few.
    pub(crate) async fn a_pod_runs(&self, devices: u32) {
        let name = eventually("a pod to run", async || {
            let name = format!("try-{}", self.tries.fetch_add(1, Ordering::SeqCst));
            self.place(&name, asks("neuron", devices), &[]).await;
            let ended = async || {
                let status = self.pods().get(&name).await.unwrap().status;
                status?.phase.filter(|phase| phase == "Running" || phase == "Failed")
            };
            (eventually("kubelet's word", ended).await == "Running").then_some(name)
        })
        .await;
        self.delete(&name).await;
    }

    /// Lets plugins that start from now on listen for HTTP, on a port that was free a moment ago.
    pub(crate) fn listen(&mut self) -> SocketAddr {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        self.config.listen = Some(address);
        address
    }

    /// What a container was started with.
    pub(crate) fn started(&self, pod: &str, container: &str) -> ContainerStart {
        let starts = self.runtime.0.lock().unwrap();
        let own = |start: &&ContainerStart| start.pod_name == pod && start.container == container;
        starts.iter().rfind(own).cloned().unwrap()
    }

    /// Container paths of a container's devices, and one of its variables.
    pub(crate) fn got(&self, pod: &str, container: &str, variable: &str) -> (Vec<String>, Option<String>) {
        let start = self.started(pod, container);
        let paths = start.devices.iter().map(|device| device.container_path.clone()).collect();
        (paths, start.env.get(variable).cloned())
    }

    /// Waits until the Node shows so many allocatable.
    pub(crate) async fn shows(&self, resource: &str, allocatable: usize) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.api.client());
        eventually(&format!("{allocatable} {resource}"), async || {
            let shown = nodes.get(NODE).await.ok()?.status?.allocatable?.remove(resource)?.0;
            (shown == allocatable.to_string()).then_some(())
        })
        .await;
    }

    /// The node's report, once it satisfies `right`.
    pub(crate) async fn report(&self, what: &str, right: impl Fn(&Value) -> bool) -> Value {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.api.client());
        eventually(&format!("a report that shows {what}"), async || {
            let text = nodes.get(NODE).await.ok()?.metadata.annotations?.remove(NODE_REPORT)?;
            serde_json::from_str(&text).ok().filter(&right)
        })
        .await
    }

    /// Takes the report off the Node, as where that is deleted and made anew.
    pub(crate) async fn lose_report(&self) {
        let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(self.api.client());
        let patch = json!({"metadata": {"annotations": {NODE_REPORT: null}}});
        nodes.patch(NODE, &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
    }

    /// Reasons and texts of the plugin's events, once there is one.
    pub(crate) async fn events(&self) -> BTreeSet<String> {
        let events: Api<Event> = Api::all(self.api.client());
        eventually("an event of the plugin", async || {
            let all = events.list(&Default::default()).await.unwrap().items;
            let ours = all
                .into_iter()
                .filter(|event| event.reporting_component.as_deref() == Some("neuron-device-plugin"));
            let texts: BTreeSet<String> = ours
                .map(|event| {
                    let about = event.involved_object.name.unwrap_or_default();
                    format!("{about}: {}: {}", event.reason.unwrap(), event.message.unwrap())
                })
                .collect();
            (!texts.is_empty()).then_some(texts)
        })
        .await
    }
}

impl Plugin {
    /// Ends the plugin, which must happen cleanly.
    pub(crate) async fn stop(mut self) {
        self.shutdown.cancel();
        within("the plugin's end", &mut self.task).await.unwrap().unwrap();
    }

    /// Waits until the plugin ends by itself.
    pub(crate) async fn ended(mut self) -> anyhow::Result<()> {
        within("the plugin's end", &mut self.task).await.unwrap()
    }

    /// Drops the plugin's main future, whatever it is doing.
    pub(crate) async fn dropped(mut self) {
        self.task.abort();
        assert!(within("the plugin's end", &mut self.task).await.unwrap_err().is_cancelled());
    }
}

impl Drop for Plugin {
    fn drop(&mut self) {
        self.shutdown.cancel();
    }
}

/// A pod with one container `main`.
pub(crate) fn asks(resource: &str, count: u32) -> Value {
    json!({ "containers": [container("main", resource, count)] })
}

pub(crate) fn container(name: &str, resource: &str, count: u32) -> Value {
    let amounts = json!({ format!("aws.amazon.com/{resource}"): count.to_string() });
    json!({ "name": name, "image": "none", "resources": { "limits": amounts, "requests": amounts } })
}

/// The answer to an HTTP request; none if nobody listens.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut socket = TcpStream::connect(address).await.ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.ok()?;
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}
