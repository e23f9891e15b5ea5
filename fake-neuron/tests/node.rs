//! `fake-neuron node`: the machine follows the Node object. The API server is the one in memory, which speaks
//! kube's protocol.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_neuron::fault::{Fault, FaultSpec, KERNEL_LOG};
use fake_neuron::node::{APPLIED, Applied, DesiredHardware, Keeper, State, apply};
use fake_neuron::{Machine, MachineError};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use neuron_core::catalog::Catalog;
use serde_json::{Value, json};
use testkit_support::{eventually, short_folder, within};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const CORE_COUNT: &str = "sys/devices/virtual/neuron_device/neuron1/core_count";

struct World {
    nodes: Api<Node>,
    folder: tempfile::TempDir,
    state: watch::Receiver<State>,
    shutdown: CancellationToken,
    keeper: tokio::task::JoinHandle<()>,
    generation: u32,
}

impl World {
    async fn of(instance_type: &str) -> World {
        World::with(Catalog::embedded(), instance_type).await
    }

    async fn with(catalog: &Catalog, instance_type: &str) -> World {
        let api = ApiServer::new(Clock::new());
        let nodes: Api<Node> = Api::all(api.client());
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1",
            "labels": {"node.kubernetes.io/instance-type": instance_type}}});
        nodes.create(&PostParams::default(), &serde_json::from_value(node).unwrap()).await.unwrap();
        let folder = short_folder().unwrap();
        let (sender, state) = watch::channel(State::Waiting);
        let (client, shutdown) = (api.client(), CancellationToken::new());
        let keeper = Keeper {
            node: "n1".to_owned(),
            root: folder.path().to_owned(),
            catalog: Arc::new(catalog.clone()),
            state: sender,
        };
        let keeper = tokio::spawn({
            let shutdown = shutdown.clone();
            async move { keeper.run(client, shutdown).await }
        });
        World { nodes, folder, state, shutdown, keeper, generation: 0 }
    }

    fn root(&self) -> &Path {
        self.folder.path()
    }

    /// Asks, as a harness does, and waits until it is carried out or refused.
    async fn ask(&mut self, labels: Value, mut annotations: Value) -> Applied {
        self.generation += 1;
        annotations["neuron-e2e/generation"] = self.generation.to_string().into();
        let patch = json!({"metadata": {"labels": labels, "annotations": annotations}});
        self.nodes.patch("n1", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        let wanted = self.generation.to_string();
        let what = format!("generation {wanted} to be applied; last: {:?}", *self.state.borrow());
        eventually(&what, async || {
            let node = self.nodes.get("n1").await.unwrap();
            let text = node.metadata.annotations?.remove(APPLIED)?;
            let applied: Applied = serde_json::from_str(&text).unwrap();
            (applied.desired.generation == wanted).then_some(applied)
        })
        .await
    }

    async fn end(self) -> tempfile::TempDir {
        self.shutdown.cancel();
        within("the keeper's end", self.keeper).await.unwrap();
        self.folder
    }
}

#[tokio::test]
async fn the_machine_follows_the_label_and_stays_when_the_keeper_ends() {
    let mut world = World::of("inf2.24xlarge").await;
    assert_eq!(world.ask(json!({}), json!({})).await.error, None);
    assert_eq!(Machine::open(world.root()).unwrap().devices(), 6);

    let label = json!({"node.kubernetes.io/instance-type": "trn2.48xlarge"});
    let applied = world.ask(label, json!({"neuron-e2e/lnc": "1"})).await;
    assert_eq!((applied.error, applied.desired.lnc), (None, Some(1)));
    assert_eq!(Machine::open(world.root()).unwrap().devices(), 16);
    let setting = std::fs::read_to_string(world.root().join("opt/aws/neuron/logical_nc_config")).unwrap();
    assert_eq!(setting, "NEURON_LOGICAL_NC_CONFIG=1");

    let other =
        world.ask(json!({"node.kubernetes.io/instance-type": ""}), json!({"neuron-e2e/lnc": null})).await;
    assert_eq!(other.desired.instance_type, None);
    assert!(matches!(Machine::open(world.root()), Err(MachineError::NoMachine { .. })));

    world.ask(json!({}), json!({"neuron-e2e/instance-type": "inf1.6xlarge"})).await;
    let folder = world.end().await;
    assert_eq!(Machine::open(folder.path()).unwrap().instance_type(), "inf1.6xlarge");
}

#[tokio::test]
async fn a_type_that_only_the_catalog_file_has_is_made() {
    let row = json!({
        "instance_type": "trn9.4xlarge", "generation": "trn3", "devices": 2, "cores_per_device": 8,
        "default_lnc": 2, "device_memory_bytes": 1, "topology": "line", "links": [[1], [0]],
        "driver_links": [[1], [0]], "device_counts": [1, 2], "device_sets": "run",
        "counts_documented": false, "vcpus": 16, "host_memory_gib": 64, "efa": null,
        "confidence": "low", "source": [],
    });
    let catalog = Catalog::from_json(&json!({"types": [row]}).to_string()).unwrap();
    let mut world = World::with(&catalog, "trn9.4xlarge").await;
    assert_eq!(world.ask(json!({}), json!({})).await.error, None);
    assert_eq!(Machine::open(world.root()).unwrap().devices(), 2);
    world.end().await;
}

#[tokio::test]
async fn devices_and_files_change_and_come_back() {
    let mut world = World::of("inf2.24xlarge").await;
    world.ask(json!({}), json!({})).await;
    let marker = world.root().join("dev/neuron0");
    let standing = std::fs::metadata(&marker).unwrap();

    world.ask(json!({}), json!({"neuron-e2e/devices": r#"{"1":"lost","2":"unhealthy"}"#})).await;
    assert!(!world.root().join("dev/neuron1").exists());
    let errors = "sys/devices/virtual/neuron_device/neuron2/stats/hardware/mem_ecc_uncorrected";
    assert_eq!(std::fs::read_to_string(world.root().join(errors)).unwrap(), "1\n");

    world.ask(json!({}), json!({"neuron-e2e/devices": r#"{"1":"healthy"}"#})).await;
    assert!(world.root().join(CORE_COUNT).exists());
    assert_eq!(std::fs::read_to_string(world.root().join(errors)).unwrap(), "0\n");
    let same = std::fs::metadata(&marker).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&standing),
        std::os::unix::fs::MetadataExt::ino(&same),
        "a device that nobody spoke of was made anew"
    );

    let files = json!({CORE_COUNT: "two\n", "dev/neuron3": null}).to_string();
    world.ask(json!({}), json!({"neuron-e2e/files": files})).await;
    assert_eq!(std::fs::read_to_string(world.root().join(CORE_COUNT)).unwrap(), "two\n");
    assert!(!world.root().join("dev/neuron3").exists());

    world.ask(json!({}), json!({"neuron-e2e/files": null})).await;
    assert_eq!(std::fs::read_to_string(world.root().join(CORE_COUNT)).unwrap(), "2");
    assert!(world.root().join("dev/neuron3").exists());
    world.end().await;
}

#[tokio::test]
async fn faults_of_the_annotation_come_and_go_alone() {
    let mut world = World::of("trn1.32xlarge").await;
    world.ask(json!({}), json!({})).await;
    let whole = common::modes(world.root());
    let reset = "sys/devices/virtual/neuron_device/neuron1/reset";
    let shown = |world: &World, path: &str| std::fs::read_to_string(world.root().join(path)).unwrap();
    let faults = json!([{"fault": "reset", "device": 1}, {"fault": "device-lost", "device": 2}]).to_string();
    let applied = world.ask(json!({}), json!({"neuron-e2e/faults": faults})).await;
    assert_eq!((applied.error, applied.desired.faults.len()), (None, 2));
    assert_eq!(shown(&world, reset), "0\n");
    assert!(!world.root().join("dev/neuron2").exists());

    // What somebody else breaks is none of the annotation's.
    let by_hand = Fault::WrongLnc { lnc: 2 };
    Machine::open(world.root()).unwrap().strike(&FaultSpec::now(by_hand)).unwrap();
    let error = r#"{"fault":"kernel-error","device":3,"kind":"HBM_UNCORRECTABLE_ERROR"}"#;
    let faults = format!(r#"[{{"fault":"reset","device":1}},{error}]"#);
    world.ask(json!({}), json!({"neuron-e2e/faults": faults})).await;
    world.ask(json!({}), json!({"neuron-e2e/faults": faults})).await;
    assert_eq!(shown(&world, reset), "0\n");
    assert!(world.root().join("dev/neuron2").exists());
    assert_eq!(shown(&world, KERNEL_LOG).lines().count(), 1, "it happens once");

    world.ask(json!({}), json!({"neuron-e2e/faults": null})).await;
    let in_force = Machine::open(world.root()).unwrap().faults().unwrap();
    assert_eq!(in_force.in_force().count(), 1);
    Machine::open(world.root()).unwrap().lift_all().unwrap();
    let mut after = common::modes(world.root());
    after.remove(KERNEL_LOG);
    assert!(after == whole);
    world.end().await;
}

#[tokio::test]
async fn timed_faults_of_the_annotation_run_by_themselves_and_end_with_it() {
    let mut world = World::of("trn1.32xlarge").await;
    world.ask(json!({}), json!({})).await;
    let lost = world.root().join("dev/neuron2");
    let faults = |lasts: &str| {
        json!([{"fault": "device-lost", "device": 2, "after": "50ms", "for": lasts}]).to_string()
    };
    world.ask(json!({}), json!({"neuron-e2e/faults": faults("100ms")})).await;
    eventually("the device to be lost", async || (!lost.exists()).then_some(())).await;
    eventually("the device to be back", async || lost.exists().then_some(())).await;

    world.ask(json!({}), json!({"neuron-e2e/faults": faults("1h")})).await;
    eventually("the device to be lost", async || (!lost.exists()).then_some(())).await;
    // Another device's state is no reason to end it.
    world.ask(json!({}), json!({"neuron-e2e/devices": r#"{"5":"unhealthy"}"#})).await;
    assert!(!lost.exists());
    world.ask(json!({}), json!({"neuron-e2e/faults": null})).await;
    assert!(lost.exists(), "what ends with the annotation is there when it is applied");
    world.end().await;
}

#[tokio::test]
async fn what_cannot_be_done_is_said_on_the_node_and_the_next_wish_is_tried() {
    let mut world = World::of("inf2.24xlarge").await;
    for (annotation, text, says) in [
        ("neuron-e2e/instance-type", "inf2.25xlarge", "inf2.25xlarge is not known"),
        ("neuron-e2e/lnc", "3", "annotation neuron-e2e/lnc is \"3\": write 1 or 2"),
        ("neuron-e2e/devices", "{1}", "annotation neuron-e2e/devices makes no sense"),
        ("neuron-e2e/devices", r#"{"9":"lost"}"#, "has no device 9"),
        (
            "neuron-e2e/faults",
            r#"{"fault":"reset"}"#,
            "annotation neuron-e2e/faults makes no sense: invalid type: map",
        ),
        ("neuron-e2e/faults", r#"[{"fault":"reset","device":9}]"#, "has no device 9"),
        ("neuron-e2e/faults", r#"[{"fault":"reset","device":9,"after":"1h"}]"#, "has no device 9"),
        ("neuron-e2e/files", r#"{"../out":"x"}"#, "is not below the machine's root"),
        ("neuron-e2e/files", r#"{"/etc/out":"x"}"#, "is not below the machine's root"),
    ] {
        let refused = world.ask(json!({}), json!({annotation: text})).await;
        assert!(refused.error.as_deref().unwrap_or_default().contains(says), "{refused:?}");
        assert!(matches!(&*world.state.borrow(), State::Failed(_)));
        assert_eq!(world.ask(json!({}), json!({annotation: null})).await.error, None);
    }
    assert_eq!(Machine::open(world.root()).unwrap().devices(), 6);
    world.end().await;
}

#[test]
fn a_file_behind_a_link_that_leads_out_of_the_root_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let (root, outside) = (folder.path().join("root"), folder.path().join("outside"));
    std::fs::create_dir(&outside).unwrap();
    let mut desired =
        DesiredHardware { instance_type: Some("inf1.xlarge".to_owned()), ..DesiredHardware::default() };
    apply(&root, None, &desired, Catalog::embedded()).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("dev/link")).unwrap();
    desired.files = BTreeMap::from([("dev/link/file".to_owned(), Some("x".to_owned()))]);
    let error = apply(&root, Some(&desired), &desired, Catalog::embedded()).unwrap_err();
    assert!(error.to_string().contains("is not below the machine's root"), "{error}");
    assert!(!outside.join("file").exists());
}
