//! A container that is started with exactly what the plugin's Allocate answered sees exactly that.

use std::collections::BTreeMap;
use std::os::unix::fs::FileTypeExt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use fake_cluster::kubelet::{Choice, ContainerRun, ContainerRuntime, ContainerStart, Kubelet, KubeletConfig};
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
use tokio_util::sync::CancellationToken;

use crate::docker::{can_run, container, first_line, start, stop, until};

const NODE: &str = "n1";

/// Notes what kubelet would give to containerd.
#[derive(Default)]
struct Noted(Mutex<Option<ContainerStart>>);

impl ContainerRuntime for Noted {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        *self.0.lock().unwrap() = Some(container.clone());
        ContainerRun { log: String::new(), ends: None }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_sees_the_devices_and_variables_that_were_allocated_and_no_others() {
    if !can_run("neuron-workload") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let spec = MachineSpec { instance_type: "inf2.24xlarge".to_owned(), lnc: None, instance_id: None };
    let machine = Machine::up(&spec, &folder.path().join("r"), Catalog::embedded()).unwrap();
    let node = machine.root().join("dev/neuron0").metadata().unwrap();
    if !node.file_type().is_char_device() {
        println!("skipped: device nodes may not be made here; run as root");
        return;
    }
    let given = allocated(&machine, &folder.path().join("k")).await;

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
    let seen: Report = serde_json::from_str(&first_line(&workload).await).unwrap();

    assert_eq!(seen.env, given.env);
    assert_eq!(seen.env, BTreeMap::from([("NEURON_RT_VISIBLE_CORES".to_owned(), "2,3,4,5".to_owned())]));
    assert_eq!(seen.devices, ["/dev/neuron1", "/dev/neuron2"]);
    let numbers: Vec<_> =
        seen.nodes.iter().map(|node| (node.kind.as_str(), node.major, node.minor)).collect();
    assert_eq!(numbers, [("character", DRIVER_MAJOR, 1), ("character", DRIVER_MAJOR, 2)]);
    // The container may open them; there is no driver behind them.
    assert!(seen.nodes.iter().all(|node| node.open == "ENXIO"), "{:?}", seen.nodes);
    assert_eq!(stop(&workload).await, 0);
}

/// What kubelet starts a container with that asks for four cores and is recorded with 2 to 5.
async fn allocated(machine: &Machine, kubelet_dir: &std::path::Path) -> ContainerStart {
    let (clock, noted, shutdown) = (Clock::new(), Arc::new(Noted::default()), CancellationToken::new());
    let api = ApiServer::new(clock.clone());
    let kubelet = KubeletConfig {
        node: NODE.to_owned(),
        dir: kubelet_dir.to_owned(),
        seed: 1,
        choice: Choice::Seeded,
        labels: BTreeMap::new(),
        status_period: Duration::ZERO,
    };
    let kubelet =
        Kubelet::start(api.client(), clock, kubelet, noted.clone(), Arc::new(api.clone())).await.unwrap();
    let config = Config {
        root: machine.root().to_owned(),
        kubelet_dir: kubelet_dir.to_owned(),
        poll: Duration::from_millis(100),
        ..Config::new(NODE)
    };
    let plugin = tokio::spawn(run(config, api.client(), shutdown.clone()));
    let nodes: Api<Node> = Api::all(api.client());
    until("12 allocatable cores", async || {
        let shown = nodes.get(NODE).await.ok()?.status?.allocatable?.remove("aws.amazon.com/neuroncore")?;
        (shown.0 == "12").then_some(())
    })
    .await;
    let pods: Api<Pod> = Api::default_namespaced(api.client());
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "main", "image": "none",
        "resources": {"limits": {"aws.amazon.com/neuroncore": "4"}}}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let cores = ContainerAllocation { devices: Default::default(), cores: "2,3,4,5".parse().unwrap() };
    let record =
        Allocation { node: NODE.to_owned(), lnc: 1, containers: [("main".to_owned(), cores)].into() };
    let binding = json!({"apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p", "annotations": record.annotations(false, "1767225600000000000")},
        "target": {"apiVersion": "v1", "kind": "Node", "name": NODE}});
    let _: Value = pods.create_subresource("binding", "p", &PostParams::default(), &binding).await.unwrap();
    let started = until("the container to be started", async || noted.0.lock().unwrap().clone()).await;
    shutdown.cancel();
    plugin.await.unwrap().unwrap();
    kubelet.stop().await;
    started
}
