//! kubelet has no time-out for its questions, and does nothing else while one is open: each is answered within the plugin's own limit,
//! whatever hangs (T34 of the conformance list; kubernetes/kubernetes#117435). Time stands still but for what is waited for.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::extract::Request as Call;
use axum::middleware::{Next, from_fn};
use kube::api::{DeleteParams, Patch, PatchParams};
use kubelet_api::deviceplugin::v1beta1::device_plugin_server::DevicePlugin as _;
use kubelet_api::deviceplugin::v1beta1::{ContainerPreferredAllocationRequest, PreferredAllocationRequest};
use neuron_core::catalog::Catalog;
use neuron_core::topology::Policy;
use neuron_device_plugin::allocation::engine::Engine;
use neuron_device_plugin::hardware::discovery::Discovery;
use neuron_device_plugin::hardware::machine::Machine;
use neuron_device_plugin::kubelet::service::Service;
use neuron_device_plugin::metrics::Metrics;
use neuron_device_plugin::resource::advertised;
use neuron_device_plugin::status::Status;
use neuron_device_plugin::{Config, HandoverMode, HealthOptions};
use rstest::rstest;
use runtime::system::FILE_TIMEOUT;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tonic::{Code, Request, Status as Refused};

use crate::manual_kubelet::{node_object, request};
use crate::node::{Node, asks, container};
use crate::platform::Watched;

const SECOND: Duration = Duration::from_secs(1);

/// The longest that a question of kubelet may take: the end of a holder is waited for, then processes of gone pods, and what has begun
/// by then ends within a second. However much hangs, nothing is added to that.
fn limit(config: &Config) -> Duration {
    let handover = if config.handover == HandoverMode::Off { Duration::ZERO } else { config.handover_limit };
    config.holder_timeout + handover + SECOND
}

/// A plugin whose machine and pods are known, and of which everything that it asks can be made to hang: files, kubelet's sockets and the
/// API server.
struct Plugin {
    node: Node,
    watched: Watched,
    api_hangs: Arc<AtomicBool>,
    engine: Arc<Engine>,
    machine: Arc<Machine>,
    service: Service,
}

impl Plugin {
    /// On an inf2.24xlarge whose device 0 the pod `holder` has, as its record says and kubelet's checkpoint does not. Device 1 was had by
    /// a pod that is gone. Two pods wait for one device each that differ in what else they ask for.
    async fn start(handover: HandoverMode) -> Plugin {
        Self::start_with(handover, Config::new("n1").holder_timeout).await
    }

    /// The same, which waits so long for a holder's end.
    async fn start_with(handover: HandoverMode, holder_timeout: Duration) -> Plugin {
        let mut node = Node::new("inf2.24xlarge");
        (node.config.holder_timeout, node.config.handover) = (holder_timeout, handover);
        node.config.host_proc = node.config.root.join("proc");
        node_object(&node).await;
        let (watched, api_hangs) = (Watched::new(), Arc::new(AtomicBool::new(false)));
        let system = watched.system();
        let engine = Engine::new(
            system.clone(),
            &node.config,
            client(&node, &api_hangs),
            Arc::new(Status::default()),
            Arc::new(Metrics::default()),
        );
        let discovery = Discovery {
            system: &system,
            root: &node.config.root,
            catalog: Catalog::embedded(),
            policy: Policy::Documented,
            instance_type: None,
            health: &HealthOptions::default(),
        };
        let machine = Arc::new(discovery.look(None).await.unwrap());
        engine.machine.send_replace(Some(Arc::clone(&machine)));

        node.place("holder", asks("neuron", 1), &[("main", "0", "")]).await;
        node.place("gone", asks("neuron", 1), &[("main", "1", "")]).await;
        node.place("waits", asks("neuron", 1), &[]).await;
        let two = json!({"initContainers": [container("init", "neuron", 1)], "containers": [container("main", "neuron", 2)]});
        node.place("waits-for-two", two, &[]).await;
        for pod in ["holder", "gone"] {
            runs(&node, pod).await;
        }
        engine.pods.read_live().await.unwrap();
        drop(engine.current(&machine));
        node.pods().delete("gone", &DeleteParams::default().grace_period(0)).await.unwrap();
        engine.pods.read_live().await.unwrap();

        let engine = Arc::new(engine);
        let service = Service {
            resource: advertised(false)[0],
            engine: Arc::clone(&engine),
            streams: Arc::new(watch::Sender::default()),
            closing: CancellationToken::new(),
        };
        Plugin { node, watched, api_hangs, engine, machine, service }
    }

    fn everything_hangs(&self) {
        self.watched.die();
        self.api_hangs.store(true, Ordering::SeqCst);
    }

    async fn allocate(&self, id: &str) -> Result<(), Refused> {
        self.service.allocate(Request::new(request(&[id.to_owned()]))).await.map(drop)
    }

    /// The id that is preferred of these.
    async fn prefer(&self, available: &[&str]) -> Vec<String> {
        let question = ContainerPreferredAllocationRequest {
            available_device_i_ds: available.iter().map(|id| (*id).to_owned()).collect(),
            must_include_device_i_ds: Vec::new(),
            allocation_size: 1,
        };
        let question = PreferredAllocationRequest { container_requests: vec![question] };
        let answer = self.service.get_preferred_allocation(Request::new(question)).await.unwrap();
        answer.into_inner().container_responses.remove(0).device_i_ds
    }

    /// Reads the checkpoint again and again, as the upkeep does beside kubelet's questions.
    async fn upkeep(&self) -> Infallible {
        loop {
            self.engine.read_checkpoint(&self.machine).await;
        }
    }

    /// What comes of a question beside the upkeep, and how long it took, which is not longer than it may.
    async fn in_time<T>(&self, question: impl Future<Output = T>) -> (T, Duration) {
        let began = Instant::now();
        let answer = tokio::select! {
            biased;
            answer = question => answer,
            never = self.upkeep() => match never {},
        };
        let (took, limit) = (began.elapsed(), limit(&self.node.config));
        assert!(took <= limit, "answered after {took:?}, the limit is {limit:?}");
        (answer, took)
    }
}

/// The API server of the node, from which nothing is heard while it hangs.
fn client(node: &Node, hangs: &Arc<AtomicBool>) -> kube::Client {
    let hangs = Arc::clone(hangs);
    let hang = from_fn(move |call: Call, next: Next| {
        let hangs = hangs.load(Ordering::SeqCst);
        async move { if hangs { std::future::pending().await } else { next.run(call).await } }
    });
    kube::Client::new(node.api.router().layer(hang), "default")
}

/// The pod's container runs, as kubelet tells the API server.
async fn runs(node: &Node, pod: &str) {
    let running = json!({"status": {"phase": "Running", "containerStatuses": [
        {"name": "main", "image": "none", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {}}},
    ]}});
    node.pods().patch_status(pod, &PatchParams::default(), &Patch::Merge(&running)).await.unwrap();
}

#[rstest]
#[case::no_process_is_looked_at(HandoverMode::Off)]
#[case::processes_are_looked_at(HandoverMode::Mark)]
#[case::processes_are_waited_for(HandoverMode::Wait)]
#[tokio::test(start_paused = true)]
async fn every_question_is_answered_in_time_though_everything_hangs_at_once(#[case] handover: HandoverMode) {
    let plugin = Plugin::start(handover).await;
    plugin.everything_hangs();
    let (held, took) = plugin.in_time(plugin.allocate("neuron0")).await;
    let held = held.unwrap_err();
    assert_eq!(held.code(), Code::FailedPrecondition);
    assert!(held.message().contains("pod default/holder holds neuron0"), "{}", held.message());
    assert!(held.message().contains("(not confirmed: "), "{}", held.message());
    assert!(took >= plugin.node.config.holder_timeout, "{took:?}: the holder may have ended");
    let (given, _) = plugin.in_time(plugin.allocate("neuron3")).await;
    given.unwrap();
    // Nobody can tell whether a process of the gone pod has it open: nothing is kept back for that.
    let (given, _) = plugin.in_time(plugin.allocate("neuron1")).await;
    given.unwrap();
    let (preferred, took) = plugin.in_time(plugin.prefer(&["neuron2", "neuron4", "neuron5"])).await;
    assert!(took > Duration::ZERO && preferred.len() == 1, "{preferred:?} after {took:?}");
    // Nothing but what the holder has.
    let (preferred, _) = plugin.in_time(plugin.prefer(&["neuron0"])).await;
    assert_eq!(preferred, [""; 0]);
}

/// Where kubelet's checkpoint alone takes as long as a holder is waited for.
#[tokio::test(start_paused = true)]
async fn nobody_is_refused_for_a_holder_before_the_pods_were_asked_for() {
    let plugin = Plugin::start_with(HandoverMode::Off, SECOND).await;
    plugin.everything_hangs();
    let (held, _) = plugin.in_time(plugin.allocate("neuron0")).await;
    let refused = held.unwrap_err();
    assert!(refused.message().contains("(not confirmed: "), "{}", refused.message());
}

#[rstest]
#[case::nearly_as_long_as_a_file_may_take(FILE_TIMEOUT - Duration::from_millis(100))]
#[case::longer(FILE_TIMEOUT + SECOND)]
#[tokio::test(start_paused = true)]
async fn every_question_is_answered_in_time_though_files_are_slow_and_nobody_answers(
    #[case] slowness: Duration,
) {
    let plugin = Plugin::start(HandoverMode::Off).await;
    std::fs::create_dir_all(plugin.node.config.plugin_dir()).unwrap();
    let checkpoint = json!({"Data": {"PodDeviceEntries": null, "RegisteredDevices": {}}, "Checksum": 1});
    std::fs::write(plugin.node.socket("kubelet_internal_checkpoint"), checkpoint.to_string()).unwrap();
    plugin.api_hangs.store(true, Ordering::SeqCst);
    plugin.watched.slow_down(slowness);
    let (held, _) = plugin.in_time(plugin.allocate("neuron0")).await;
    assert_eq!(held.unwrap_err().code(), Code::FailedPrecondition);
    let (given, _) = plugin.in_time(plugin.allocate("neuron3")).await;
    given.unwrap();
    let (preferred, _) = plugin.in_time(plugin.prefer(&["neuron2", "neuron4", "neuron5"])).await;
    assert_eq!(preferred.len(), 1, "{preferred:?}");
}

#[rstest]
#[case::looked_at(HandoverMode::Mark)]
#[case::waited_for(HandoverMode::Wait)]
#[tokio::test(start_paused = true)]
async fn a_node_with_many_slow_processes_keeps_no_question_back(#[case] handover: HandoverMode) {
    let plugin = Plugin::start(handover).await;
    for pid in 1000..1200 {
        let folder = plugin.node.config.host_proc.join(pid.to_string());
        std::fs::create_dir_all(folder.join("fd")).unwrap();
        std::fs::write(folder.join("cgroup"), "0::/system.slice\n").unwrap();
    }
    // What a pod may ask for that gets more than this is not avoided.
    plugin.node.pods().delete("waits-for-two", &DeleteParams::default().grace_period(0)).await.unwrap();
    plugin.engine.pods.read_live().await.unwrap();
    // A look at all of them takes 20 s.
    plugin.watched.slow_down(SECOND / 10);
    let (preferred, took) = plugin.in_time(plugin.prefer(&["neuron1"])).await;
    assert_eq!(preferred, ["neuron1"]);
    // Where nobody waits for them there is nothing to avoid, either.
    let looks = if handover == HandoverMode::Wait { 2 * SECOND..5 * SECOND } else { SECOND / 10..2 * SECOND };
    assert!(looks.contains(&took), "{took:?}");
    let (given, took) = plugin.in_time(plugin.allocate("neuron1")).await;
    given.unwrap();
    assert!((5 * SECOND..8 * SECOND).contains(&took), "{took:?}");
}
