//! Devices that a process of a gone pod still has open, by a `/proc` that each test makes itself: its links lead to what the test
//! holds open, without reading or writing it.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, create_dir_all, write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{OpenOptionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fake_cluster::kubelet::Kubelet;
use kube::api::DeleteParams;
use neuron_core::ids::DeviceSet;
use neuron_device_plugin::handover::Handover;
use neuron_device_plugin::handover::processes::OpenDevice;
use neuron_device_plugin::metrics::{Metrics, Now};
use neuron_device_plugin::status::Status;
use neuron_device_plugin::{Config, HandoverMode, System};
use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;
use tokio::time::{Instant, sleep};

use crate::captured::Log;
use crate::node::{Node, Plugin, asks, container, get};
use crate::platform::Watched;

/// Linux' flag for a file that is open and neither read nor written, of `open(2)`: a fake node has no driver that would open it.
const O_PATH: i32 = 0o10000000;
/// Devices that every machine has, in place of nodes that only root may make.
const NODES: [&str; 2] = ["/dev/null", "/dev/zero"];
const SECOND: Duration = Duration::from_secs(1);

/// A host's `/proc` and `/dev`.
struct Host {
    dir: tempfile::TempDir,
}

impl Host {
    fn new() -> Self {
        let host = Host { dir: tempfile::tempdir().unwrap() };
        create_dir_all(host.proc().join("1/fd")).unwrap();
        for (device, node) in NODES.iter().enumerate() {
            let path = host.dir.path().join(format!("dev/neuron{device}"));
            create_dir_all(path.parent().unwrap()).unwrap();
            symlink(node, path).unwrap();
        }
        host
    }

    fn proc(&self) -> PathBuf {
        self.dir.path().join("proc")
    }

    /// A process of the pod, or of none, that has this node open until what is given back is dropped.
    fn opens(&self, pid: u32, pod: &str, node: &str) -> File {
        let folder = self.proc().join(pid.to_string());
        create_dir_all(folder.join("fd")).unwrap();
        let pod =
            if pod.is_empty() { "system.slice".to_owned() } else { format!("kubepods/besteffort/pod{pod}") };
        write(folder.join("cgroup"), format!("0::/{pod}/11ff\n")).unwrap();
        write(folder.join("comm"), "python3\n").unwrap();
        let held = OpenOptions::new().read(true).custom_flags(O_PATH).open(node).unwrap();
        symlink("/dev/full", folder.join("fd/0")).unwrap();
        symlink(format!("/proc/{}/fd/{}", std::process::id(), held.as_raw_fd()), folder.join("fd/3"))
            .unwrap();
        held
    }

    fn handover(&self, handover: HandoverMode) -> (Handover, Arc<Status>, Arc<Metrics>) {
        self.handover_on(System::real(), handover)
    }

    fn handover_on(&self, system: System, mode: HandoverMode) -> (Handover, Arc<Status>, Arc<Metrics>) {
        let (status, metrics) = (Arc::new(Status::default()), Arc::new(Metrics::default()));
        let (root, host_proc) = (self.dir.path().to_owned(), self.proc());
        let config = Config { handover: mode, host_proc, root, ..Config::new("n1") };
        (Handover::new(system, &config, Arc::clone(&status), Arc::clone(&metrics)), status, metrics)
    }
}

/// Waits as an Allocate does that may still take ten seconds.
async fn wait(handover: &Handover, gone: &BTreeMap<String, DeviceSet>) -> Option<OpenDevice> {
    let now = Instant::now();
    handover.wait(gone, now + handover.wait_at_most(), now + 10 * SECOND).await
}

/// The pod `gone` that had this device.
fn had(device: u8) -> BTreeMap<String, DeviceSet> {
    BTreeMap::from([("gone".to_owned(), DeviceSet::single(device))])
}

#[tokio::test(start_paused = true)]
async fn a_device_is_handed_over_once_the_gone_pods_process_has_closed_it() {
    let host = Host::new();
    let (handover, _, metrics) = host.handover(HandoverMode::Wait);
    let held = host.opens(4711, "gone", NODES[0]);
    let (gone, began) = (had(0), Instant::now());
    let closes = async {
        sleep(SECOND).await;
        drop(held);
    };
    let (open, ()) = tokio::join!(wait(&handover, &gone), closes);
    assert_eq!(open, None);
    assert!((SECOND..2 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(
        metrics.text(&Now::default()).contains("neuron_device_plugin_handovers_total{result=\"closed\"} 1\n")
    );
}

#[tokio::test(start_paused = true)]
async fn a_process_that_keeps_it_open_is_named_after_five_seconds() {
    let host = Host::new();
    let (handover, _, metrics) = host.handover(HandoverMode::Wait);
    let _held = host.opens(4711, "gone", NODES[0]);
    let began = Instant::now();
    let open = wait(&handover, &had(0)).await.unwrap();
    let text = "process 4711 (python3) of a pod that has ended or is gone (UID gone) has /dev/neuron0 open";
    assert_eq!((open.to_string().as_str(), began.elapsed()), (text, 5 * SECOND));
    let text = metrics.text(&Now::default());
    assert!(text.contains("neuron_device_plugin_handovers_total{result=\"refused\"} 1\n"), "{text}");
    assert!(text.contains("neuron_device_plugin_handover_wait_seconds_total 5.0\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn whoever_else_has_it_open_is_not_waited_for() {
    let host = Host::new();
    let _neighbour = host.opens(4711, "lives", NODES[0]);
    let _monitor = host.opens(4712, "", NODES[0]);
    let _other_device = host.opens(4713, "gone", NODES[1]);
    let (handover, _, metrics) = host.handover(HandoverMode::Wait);
    let began = Instant::now();
    assert_eq!(wait(&handover, &had(0)).await, None);
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert!(
        metrics.text(&Now::default()).contains("neuron_device_plugin_handovers_total{result=\"closed\"} 0\n")
    );
}

#[tokio::test(start_paused = true)]
async fn where_it_is_only_marked_nobody_waits() {
    let host = Host::new();
    let ((handover, ..), _held) = (host.handover(HandoverMode::Mark), host.opens(4711, "gone", NODES[0]));
    let began = Instant::now();
    assert!(wait(&handover, &had(0)).await.is_some());
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_may_not_be_looked_into_may_have_it_open() {
    let (host, watched) = (Host::new(), Watched::new());
    let (handover, ..) = host.handover_on(watched.system(), HandoverMode::Wait);
    let _held = host.opens(4711, "gone", NODES[0]);
    let files = host.proc().join("4711/fd");
    watched.hang(Some(files.clone()));
    let open = wait(&handover, &had(0)).await.unwrap();
    let text = format!("may have /dev/neuron0 open: {}: timed out", files.display());
    assert!(open.to_string().ends_with(&text), "{open}");
}

/// A look is many: what hangs from one of them on is not closed for that.
#[rstest]
#[case::whose_process_it_is("proc/4711/cgroup")]
#[case::what_is_open("proc/4711/fd/3")]
#[case::the_device("dev/neuron0")]
#[tokio::test(start_paused = true)]
async fn what_cannot_be_seen_any_more_amid_a_look_is_not_given(#[case] file: &str) {
    let (host, watched) = (Host::new(), Watched::new());
    let (handover, ..) = host.handover_on(watched.system(), HandoverMode::Wait);
    let _held = host.opens(4711, "gone", NODES[0]);
    let hangs = async {
        sleep(SECOND).await;
        watched.hang(Some(host.dir.path().join(file)));
    };
    let gone = had(0);
    let (open, ()) = tokio::join!(wait(&handover, &gone), hangs);
    assert_eq!(open.map(|open| open.pid), Some(4711));
}

#[tokio::test(start_paused = true)]
async fn what_was_open_when_it_could_be_seen_last_is_not_given() {
    let (host, watched) = (Host::new(), Watched::new());
    let (handover, status, metrics) = host.handover_on(watched.system(), HandoverMode::Wait);
    let _held = host.opens(4711, "gone", NODES[0]);
    let hangs = async {
        sleep(SECOND).await;
        watched.hang(Some(host.proc()));
    };
    let gone = had(0);
    let began = Instant::now();
    let (open, ()) = tokio::join!(wait(&handover, &gone), hangs);
    assert_eq!(open.map(|open| open.pid), Some(4711));
    assert!((5 * SECOND..=10 * SECOND).contains(&began.elapsed()), "{:?}", began.elapsed());
    assert!(status.text().unwrap().contains("cannot be looked at"), "{status:?}");
    let text = metrics.text(&Now::default());
    assert!(text.contains("neuron_device_plugin_handovers_total{result=\"refused\"} 1\n"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn where_no_process_can_be_seen_devices_are_given_and_the_operator_is_told() {
    let host = Host::new();
    std::fs::remove_dir_all(host.proc()).unwrap();
    let (handover, status, _) = host.handover(HandoverMode::Wait);
    let note = format!("ok\nhandover: the node's processes cannot be looked at in {}", host.proc().display());
    handover.start().await;
    assert!(status.text().unwrap().starts_with(&note), "{status:?}");
    assert_eq!(wait(&handover, &had(0)).await, None);
    assert!(status.text().unwrap().starts_with(&note), "{status:?}");
    create_dir_all(host.proc()).unwrap();
    assert_eq!(wait(&handover, &had(0)).await, None);
    assert_eq!(status.text().unwrap(), "ok\n");
}

#[tokio::test]
async fn that_nobody_looks_is_said_at_the_start() {
    let mut node = Node::new("inf2.xlarge");
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    let said = async || get(address, "/healthz").await.filter(|text| text.contains("ok\nhandover: off: "));
    eventually("the note", said).await;
}

type Running = (Kubelet, Plugin);

/// A node with a device that a process may have open.
async fn node(
    instance_type: &str,
    device: u8,
    handover: HandoverMode,
    limit: Duration,
) -> (Node, Host, Running) {
    let (mut node, host) = (Node::new(instance_type), Host::new());
    let device = node.config.root.join(format!("dev/neuron{device}"));
    std::fs::remove_file(&device).unwrap();
    symlink(NODES[0], &device).unwrap();
    (node.config.handover, node.config.handover_limit) = (handover, limit);
    node.config.host_proc = host.proc();
    let running = (node.kubelet().await, node.plugin());
    (node, host, running)
}

/// Deletes the pod `old` by force while its process has that device open.
async fn delete_by_force(node: &Node, host: &Host) -> File {
    let uid = node.phase("old", "Running").await.metadata.uid.unwrap();
    let held = host.opens(4711, &uid, NODES[0]);
    node.pods().delete("old", &DeleteParams::default().grace_period(0)).await.unwrap();
    held
}

/// A node whose pod `old` was deleted by force while its process has the device open.
async fn deleted_by_force(handover: HandoverMode, limit: Duration) -> (Node, Host, File, Running) {
    let (node, host, running) = node("inf2.xlarge", 0, handover, limit).await;
    node.shows("aws.amazon.com/neuroncore", 2).await;
    node.place("old", asks("neuroncore", 1), &[("main", "", "0")]).await;
    let held = delete_by_force(&node, &host).await;
    (node, host, held, running)
}

#[tokio::test]
async fn a_pod_starts_once_the_process_of_the_one_before_it_has_ended() {
    let log = Log::capture();
    let (node, _host, held, _running) = deleted_by_force(HandoverMode::Wait, 60 * SECOND).await;
    // The other core of the device was never the old pod's.
    node.place("neighbour", asks("neuroncore", 1), &[("main", "", "1")]).await;
    node.phase("neighbour", "Running").await;
    assert_eq!(log.lines("an allocation waits").len(), 0);
    node.place("new", asks("neuroncore", 1), &[("main", "", "0")]).await;
    eventually("a wait", async || (!log.lines("an allocation waits").is_empty()).then_some(())).await;
    drop(held);
    node.phase("new", "Running").await;
}

#[tokio::test]
async fn a_pod_is_refused_where_the_process_does_not_end_and_is_told_which_it_is() {
    let (node, _host, _held, _running) = deleted_by_force(HandoverMode::Wait, SECOND / 2).await;
    node.place("neighbour", asks("neuroncore", 1), &[("main", "", "1")]).await;
    node.phase("neighbour", "Running").await;
    node.place("new", asks("neuroncore", 1), &[("main", "", "0")]).await;
    let message = node.phase("new", "Failed").await.status.unwrap().message.unwrap();
    let why = "neuroncore0 of aws.amazon.com/neuroncore cannot be given: process 4711 (python3) of a pod that has ended or \
               is gone (UID ";
    assert!(message.contains(why), "{message}");
    assert!(
        message.contains(") has /dev/neuron0 open; they can be given once that process has ended"),
        "{message}"
    );
    let event = format!("new: AllocationRefused: {why}");
    assert!(node.events().await.iter().any(|text| text.starts_with(&event)), "{:?}", node.events().await);
}

#[tokio::test]
async fn a_pod_whose_recorded_core_is_still_open_gets_another_one_at_once() {
    let (node, _host, _held, _running) = deleted_by_force(HandoverMode::Wait, 60 * SECOND).await;
    node.place("new", asks("neuroncore", 1), &[("main", "", "0")]).await;
    node.phase("new", "Running").await;
    assert_eq!(node.got("new", "main", "NEURON_RT_VISIBLE_CORES").1.as_deref(), Some("1"));
    node.recorded("new", &[("main", "", "1")]).await;
}

#[tokio::test]
async fn an_init_container_waits_for_what_it_has_to_hand_down() {
    let log = Log::capture();
    let (node, host, _running) = node("inf2.24xlarge", 5, HandoverMode::Wait, 60 * SECOND).await;
    node.shows("aws.amazon.com/neuron", 6).await;
    for (name, device) in [("old", "5"), ("a", "0"), ("b", "2"), ("c", "3")] {
        node.place(name, asks("neuron", 1), &[("main", device, "")]).await;
        node.phase(name, "Running").await;
    }
    let held = delete_by_force(&node, &host).await;
    let mut init = container("init", "neuron", 1);
    init["args"] = json!(["0"]);
    let spec = json!({ "initContainers": [init], "containers": [container("main", "neuron", 2)] });
    node.place("new", spec, &[("init", "5", ""), ("main", "4,5", "")]).await;
    // Device 1 would be given at once, and no second one that is linked to it.
    eventually("a wait", async || (!log.lines("an allocation waits").is_empty()).then_some(())).await;
    drop(held);
    node.phase("new", "Running").await;
    node.recorded("new", &[("init", "5", ""), ("main", "4,5", "")]).await;
}

#[tokio::test]
async fn a_pod_whose_device_is_still_open_may_start_with_an_event_that_says_so() {
    let (node, _host, _held, _running) = deleted_by_force(HandoverMode::Mark, 60 * SECOND).await;
    node.place("new", asks("neuroncore", 1), &[("main", "", "0")]).await;
    node.phase("new", "Running").await;
    let why = "new: NeuronDeviceStillOpen: neuroncore0 of aws.amazon.com/neuroncore are given though process 4711 (python3)";
    eventually("the event", async || {
        node.events().await.iter().any(|text| text.starts_with(why)).then_some(())
    })
    .await;
}
