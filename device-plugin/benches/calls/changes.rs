//! Lists that change on a stream that is open: from the moment when the plugin knows that a device is lost, or back, until kubelet's side has
//! read it. Used by the bench `calls`.

use std::sync::Arc;
use std::time::Instant;

use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::{Empty, ListAndWatchResponse, UNHEALTHY};
use kubelet_api::unix::connect;
use neuron_core::catalog::Catalog;
use neuron_core::ids::DeviceSet;
use neuron_core::names::NEURONCORE;
use neuron_core::topology::Policy;
use neuron_device_plugin::allocation::engine::Engine;
use neuron_device_plugin::hardware::discovery::Discovery;
use neuron_device_plugin::hardware::machine::Machine;
use neuron_device_plugin::kubelet::folder::PluginFolder;
use neuron_device_plugin::kubelet::socket::SocketServer;
use neuron_device_plugin::resource::advertised;
use neuron_device_plugin::{Config, System};
use tokio::sync::oneshot;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::node::{CORES, Node, on_a_thread};

/// The device that is lost and comes back.
const LOST: DeviceSet = DeviceSet::single(5);

/// A plugin that serves cores and is told of lost devices by the bench, not by a machine, whose devices it looks at twice a second.
pub(crate) struct Changes {
    /// The same socket.
    pub(crate) plugin: DevicePluginClient<Channel>,
    lists: Streaming<ListAndWatchResponse>,
    engine: Arc<Engine>,
    /// What the machine is like after the next change, and after the one that follows.
    next: [Arc<Machine>; 2],
}

impl Changes {
    /// A stream whose first list has come.
    pub(crate) async fn new(node: &Node) -> Self {
        let (config, client) = (node.config.clone(), node.api.client());
        let (tell, told) = oneshot::channel();
        on_a_thread(async move {
            let system = System::real();
            let engine = Engine::new(system.clone(), &config, client, Arc::default(), Arc::default());
            let (engine, machine) = (Arc::new(engine), discovered(&system, &config).await);
            engine.machine.send_replace(Some(Arc::new(machine.clone())));
            let folder = PluginFolder::new(system, config.plugin_dir());
            let cores = advertised(false).into_iter().find(|resource| resource.name == NEURONCORE);
            let server = SocketServer::start(&folder, cores.expect("cores are advertised"), &engine);
            let server = server.expect("a server");
            let _ = tell.send((engine, machine, server.socket.clone()));
            // Until the process ends.
            std::future::pending::<()>().await;
            drop(server);
        });
        let (engine, machine, socket) = told.await.expect("a plugin that is told of losses");
        let mut plugin = DevicePluginClient::new(connect(&socket).await.expect("the plugin's socket"));
        let mut lists = plugin.list_and_watch(Empty {}).await.expect("a stream").into_inner();
        lists.message().await.expect("a list").expect("a list");
        let lost = Machine { withheld: LOST, ..machine.clone() };
        Self { plugin, lists, engine, next: [lost, machine].map(Arc::new) }
    }

    /// Seconds until kubelet's side has read the next list.
    pub(crate) async fn change(&mut self) -> f64 {
        let machine = Arc::clone(&self.next[0]);
        let lost = machine.topology.cores_of(machine.withheld).len() as usize;
        self.next.swap(0, 1);
        let began = Instant::now();
        self.engine.machine.send_replace(Some(machine));
        let list = self.lists.message().await.expect("a list").expect("a list");
        let took = began.elapsed().as_secs_f64();
        let unhealthy = list.devices.iter().filter(|device| device.health == UNHEALTHY).count();
        assert_eq!((list.devices.len(), unhealthy), (usize::from(CORES), lost));
        took
    }
}

async fn discovered(system: &System, config: &Config) -> Machine {
    let discovery = Discovery {
        system,
        root: &config.root,
        catalog: Catalog::embedded(),
        policy: Policy::Documented,
        instance_type: None,
        health: &config.health,
    };
    discovery.look(None).await.expect("a machine")
}
