//! The plugin against a kubelet that is a library: the same calls on the same sockets as on a node.

use std::sync::Arc;
use std::time::Duration;

use fake_cluster::kubelet::{FreeChoices, KubeletConfig, RecordingRuntime};
use fake_cluster::{ApiServer, Kubelet, System};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, PostParams};
use serde_json::json;
use testkit_support::{eventually, within};
use tokio_util::sync::CancellationToken;
use toy_device_plugin::{Config, run};

const PAIR: &str = "example.com/pair";

struct TestNode {
    server: ApiServer,
    config: KubeletConfig,
    containers: Arc<RecordingRuntime>,
    plugin: Config,
    _folder: tempfile::TempDir,
}

impl TestNode {
    fn new() -> Self {
        let folder = testkit_support::short_folder().unwrap();
        let config = KubeletConfig {
            free_choices: FreeChoices::Adversarial,
            ..KubeletConfig::new("n1", folder.path().join("kubelet"))
        };
        let plugin = Config {
            socket_dir: config.plugins_dir(),
            resource: PAIR.to_owned(),
            unhealthy_dir: Some(folder.path().to_owned()),
            poll: Duration::from_millis(20),
        };
        let (server, containers) = (ApiServer::default(), Arc::default());
        Self { server, config, containers, plugin, _folder: folder }
    }

    async fn kubelet(&self) -> Kubelet {
        let (system, client) = (System::real(), self.server.client());
        let kubelet =
            Kubelet::start(&system, client, &self.server, self.config.clone(), self.containers.clone());
        kubelet.await.unwrap()
    }

    /// Waits until the Node shows so many allocatable devices.
    async fn shows(&self, count: &str) {
        let nodes: Api<Node> = Api::all(self.server.client());
        eventually(&format!("{count} allocatable"), async || {
            let allocatable = nodes.get("n1").await.unwrap().status?.allocatable?;
            (allocatable.get(PAIR)?.0 == count).then_some(())
        })
        .await;
    }

    /// The ids that a pod with `count` devices is started with.
    async fn ids_of_pod(&self, name: &str, count: u32) -> String {
        let resources = json!({"limits": {PAIR: count.to_string()}});
        let main = json!({"name": "main", "image": "none", "resources": resources});
        let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": "n1", "containers": [main]}});
        let pods: Api<Pod> = Api::default_namespaced(self.server.client());
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
        let start = async || self.containers.last_start(name, "main");
        let start = eventually(&format!("pod {name} to start"), start).await;
        assert_eq!(start.devices.len(), count as usize);
        start.env["EXAMPLE_PAIR_IDS"].clone()
    }
}

#[tokio::test]
async fn a_pod_gets_a_linked_pair() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    tokio::spawn(run(System::real(), node.plugin.clone(), CancellationToken::new()));
    node.shows("4").await;
    assert_eq!(node.ids_of_pod("one", 1).await, "pair0-a");
    // An adversarial kubelet would scatter them: the plugin's preference decides.
    assert_eq!(node.ids_of_pod("two", 2).await, "pair1-a,pair1-b");
    assert_eq!(node.ids_of_pod("last", 1).await, "pair0-b");
}

#[tokio::test]
async fn an_unhealthy_device_lowers_allocatable_until_it_is_healthy_again() {
    let node = TestNode::new();
    let _kubelet = node.kubelet().await;
    tokio::spawn(run(System::real(), node.plugin.clone(), CancellationToken::new()));
    node.shows("4").await;
    let file = node.plugin.unhealthy_dir.as_ref().unwrap().join("pair0-a");
    std::fs::write(&file, "").unwrap();
    node.shows("3").await;
    assert_eq!(node.ids_of_pod("p", 1).await, "pair0-b");
    std::fs::remove_file(&file).unwrap();
    node.shows("4").await;
}

#[tokio::test]
async fn it_registers_again_with_a_kubelet_that_has_restarted() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let shutdown = CancellationToken::new();
    let plugin = tokio::spawn(run(System::real(), node.plugin.clone(), shutdown.clone()));
    node.shows("4").await;
    kubelet.stop().await;
    let _kubelet = node.kubelet().await;
    node.shows("4").await;
    assert_eq!(node.ids_of_pod("p", 2).await, "pair0-a,pair0-b");
    shutdown.cancel();
    within("the plugin to end", plugin).await.unwrap().unwrap();
    node.shows("0").await;
}
