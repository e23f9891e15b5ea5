//! A container that is started with exactly what the plugin's Allocate answered sees exactly that.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_cluster::System;
use fake_cluster::api::ApiServer;
use fake_cluster::kubelet::{
    ContainerRun, ContainerRuntime, ContainerStart, FreeChoices, Kubelet, KubeletConfig,
};
use fake_neuron::{DRIVER_MAJOR, Machine, MachineSpec};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Api;
use kube::api::PostParams;
use neuron_core::catalog::Catalog;
use neuron_core::record::{Allocation, ContainerAllocation};
use neuron_device_plugin::{Config, run};
use neuron_workload::Report;
use serde_json::{Value, json};
use testcontainers::ImageExt;
use testcontainers::bollard::models::DeviceMapping;
use testkit_support::eventually;
use tokio_util::sync::CancellationToken;

use crate::docker::{can_run, container, first_line, skip, start, stop};

const NODE: &str = "n1";

const DEVICES: &str = "aws.amazon.com/neuron";
const CORES: &str = "aws.amazon.com/neuroncore";
/// Allocatable of each on an inf2.24xlarge.
const ALLOCATABLE: [(&str, &str); 2] = [(DEVICES, "6"), (CORES, "12")];

/// A container's request.
struct Requested {
    /// Its limits by resource.
    limits: Value,
    /// Ids of the recorded devices and cores.
    recorded: (&'static str, &'static str),
}

/// Keeps what kubelet would give to containerd.
#[derive(Default)]
struct Noted(Mutex<Option<ContainerStart>>);

impl ContainerRuntime for Noted {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        *self.0.lock().unwrap() = Some(container.clone());
        ContainerRun::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_with_cores_sees_exactly_what_was_allocated() {
    let requested = Requested { limits: json!({CORES: "4"}), recorded: ("", "2,3,4,5") };
    sees(requested, &[1, 2], &[("NEURON_RT_VISIBLE_CORES", "2,3,4,5")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_with_devices_sees_exactly_what_was_allocated() {
    let requested = Requested { limits: json!({DEVICES: "2"}), recorded: ("3,4", "") };
    sees(requested, &[3, 4], &[("AWS_NEURON_VISIBLE_DEVICES", "3,4")]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_with_devices_and_cores_sees_exactly_what_was_allocated() {
    let requested = Requested { limits: json!({DEVICES: "1", CORES: "2"}), recorded: ("4", "2,3") };
    let variables = [("AWS_NEURON_VISIBLE_DEVICES", "4"), ("NEURON_RT_VISIBLE_CORES", "2,3")];
    sees(requested, &[1, 4], &variables).await;
}

/// Starts a container with such a request; it must see these devices and these variables, and no others.
async fn sees(requested: Requested, numbers: &[u32], variables: &[(&str, &str)]) {
    if !can_run("neuron-workload") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec =
        MachineSpec { instance_type: "inf2.24xlarge".to_owned(), lnc: None, instance_id: None, driver: None };
    let machine = Machine::up(&spec, &folder.path().join("r"), Catalog::embedded()).unwrap();
    let node = machine.root().join("dev/neuron0").metadata().unwrap();
    if !node.file_type().is_char_device() {
        skip("device nodes may not be made here; run as root");
        return;
    }
    let given = allocated(&machine, &folder.path().join("k"), requested).await;

    let devices: Vec<DeviceMapping> = given
        .devices
        .iter()
        .map(|device| DeviceMapping {
            path_on_host: Some(device.host_path.clone()),
            path_in_container: Some(device.container_path.clone()),
            cgroup_permissions: Some(device.permissions.clone()),
        })
        .collect();
    let mut request = container("neuron-workload", &[])
        .with_host_config_modifier(move |host| host.devices = Some(devices.clone()));
    for (name, value) in &given.env {
        request = request.with_env_var(name, value);
    }
    let workload = start(request).await;
    let mut seen: Report = serde_json::from_str(&first_line(&workload).await).unwrap();

    // What every container has, whatever it is given.
    let bare = start(container("neuron-workload", &[])).await;
    let bare: Report = serde_json::from_str(&first_line(&bare).await).unwrap();
    seen.env.retain(|name, _| !bare.env.contains_key(name));
    seen.nodes.retain(|node| !bare.nodes.contains(node));
    assert_eq!(seen.env, given.env);
    let wanted = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    assert_eq!(seen.env, wanted.collect::<BTreeMap<_, _>>());
    let paths: Vec<_> = numbers.iter().map(|number| format!("/dev/neuron{number}")).collect();
    assert_eq!(seen.devices, paths);
    let nodes: Vec<_> = seen.nodes.iter().map(|node| (node.kind.as_str(), node.major, node.minor)).collect();
    let wanted: Vec<_> = numbers.iter().map(|&number| ("character", DRIVER_MAJOR, number)).collect();
    assert_eq!(nodes, wanted);
    // The container may open them; there is no driver behind them.
    assert!(seen.nodes.iter().all(|node| node.open == "ENXIO"), "{:?}", seen.nodes);
    assert_eq!(stop(&workload).await, 0);
}

/// What kubelet starts a container of such a request with.
async fn allocated(machine: &Machine, kubelet_dir: &std::path::Path, requested: Requested) -> ContainerStart {
    let Requested { limits, recorded: (devices, cores) } = requested;
    let (noted, shutdown) = (Arc::new(Noted::default()), CancellationToken::new());
    let api = ApiServer::default();
    let kubelet =
        KubeletConfig { free_choices: FreeChoices::Seeded(1), ..KubeletConfig::new(NODE, kubelet_dir) };
    let kubelet = Kubelet::start(&System::real(), api.client(), &api, kubelet, noted.clone()).await.unwrap();
    let config = Config {
        root: machine.root().to_owned(),
        kubelet_dir: kubelet_dir.to_owned(),
        poll: Duration::from_millis(100),
        ..Config::new(NODE)
    };
    let plugin = tokio::spawn(run(System::real(), config, api.client(), shutdown.clone()));
    let nodes: Api<Node> = Api::all(api.client());
    eventually(&format!("allocatable to be {ALLOCATABLE:?}"), async || {
        let mut shown = nodes.get(NODE).await.ok()?.status?.allocatable?;
        ALLOCATABLE
            .iter()
            .all(|&(resource, count)| shown.remove(resource).is_some_and(|all| all.0 == count))
            .then_some(())
    })
    .await;
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "none",
        "resources": {"limits": limits}}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let recorded = ContainerAllocation { devices: devices.parse().unwrap(), cores: cores.parse().unwrap() };
    let record = Allocation {
        node: NODE.into(),
        lnc: 1,
        containers: [("main".into(), recorded)].into_iter().collect(),
    };
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p", "annotations": record.annotations(false, "1767225600000000000")},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
    let _: Value = pods.create_subresource("binding", "p", &PostParams::default(), &binding).await.unwrap();
    let started = eventually("the container to be started", async || noted.0.lock().unwrap().clone()).await;
    shutdown.cancel();
    plugin.await.unwrap().unwrap();
    kubelet.stop().await;
    started
}
