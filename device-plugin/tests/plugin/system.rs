//! What the plugin asks of the system that it was given: everything, and no more than it needs.

use std::path::Path;
use std::time::Duration;

use fake_neuron::MachineSpec;
use neuron_core::catalog::Catalog;
use neuron_core::topology::Policy;
use neuron_device_plugin::hardware::discovery::Discovery;
use neuron_device_plugin::hardware::health::DeviceHealth;
use neuron_device_plugin::hardware::machine::Machine;
use neuron_device_plugin::{HealthOptions, run};
use testkit_support::eventually;
use tokio::runtime::{Builder, Handle};
use tokio_util::sync::CancellationToken;

use crate::node::Node;
use crate::platform::Watched;

#[tokio::test]
async fn every_task_of_the_plugin_is_one_of_its_system() {
    let node = Node::new("inf2.24xlarge");
    let _kubelet = node.kubelet().await;
    let (config, client, watched) = (node.config.clone(), node.api.client(), Watched::new());
    let (shutdown, plugins) = (CancellationToken::new(), watched.clone());
    let stop = shutdown.clone();
    let (counted, count) = tokio::sync::oneshot::channel::<tokio::sync::oneshot::Sender<(usize, usize)>>();
    // A runtime on which nobody else runs.
    let thread = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let plugin = run(plugins.system(), config, client, stop);
            let counting = async {
                let tell = count.await.unwrap();
                tell.send((Handle::current().metrics().num_alive_tasks(), plugins.tasks())).unwrap();
            };
            tokio::join!(plugin, counting).0.unwrap();
            // The connection that it kept ends a moment after who kept it.
            eventually("its tasks to end", async || (plugins.tasks() == 0).then_some(())).await;
        })
    });
    node.shows("aws.amazon.com/neuron", 6).await;
    node.shows("aws.amazon.com/neuroncore", 12).await;
    node.a_pod_runs(2).await;
    let (tell, told) = tokio::sync::oneshot::channel();
    counted.send(tell).unwrap();
    let (alive, its_own) = told.await.unwrap();
    assert_eq!(alive, its_own);
    assert!(alive > 0, "its parts run");
    shutdown.cancel();
    eventually("its end", async || thread.is_finished().then_some(())).await;
    thread.join().unwrap();
}

#[tokio::test]
async fn a_plugin_folder_that_hangs_is_no_reason_to_register_again() {
    let (node, watched) = (Node::new("inf2.xlarge"), Watched::new());
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin_on(watched.system());
    node.shows("aws.amazon.com/neuron", 1).await;
    node.shows("aws.amazon.com/neuroncore", 2).await;
    let sockets = node.sockets();
    watched.hang(Some(node.config.plugin_dir()));
    let before = watched.file_operations();
    // A look at the folder is three operations, beside those at the device.
    let looked = async || (watched.file_operations() > before + 100).then_some(());
    eventually("looks at the folder", looked).await;
    node.a_pod_runs(1).await;
    assert_eq!(node.sockets(), sockets);
    watched.hang(None);
    node.a_pod_runs(1).await;
    assert_eq!(node.sockets(), sockets);
}

#[tokio::test]
async fn a_checkpoint_that_cannot_be_read_is_tried_again_with_the_polls() {
    let (node, watched) = (Node::new("inf2.xlarge"), Watched::new());
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin_on(watched.system());
    node.shows("aws.amazon.com/neuron", 1).await;
    node.shows("aws.amazon.com/neuroncore", 2).await;
    // A folder in its place, which nobody can read.
    let checkpoint = node.socket("kubelet_internal_checkpoint");
    eventually("kubelet's checkpoint", async || std::fs::remove_file(&checkpoint).ok()).await;
    std::fs::create_dir(&checkpoint).unwrap();
    let (before, began) = (watched.file_operations(), std::time::Instant::now());
    let looked = async || (watched.file_operations() > before + 300).then_some(());
    eventually("looks", looked).await;
    // With every poll some twenty operations at device, sockets and checkpoint.
    assert!(began.elapsed() > 5 * node.config.poll, "300 operations within {:?}", began.elapsed());
}

/// A trn1.32xlarge with healthy devices, as it is found.
async fn found(root: &Path, watched: &Watched) -> Machine {
    let spec =
        MachineSpec { instance_type: "trn1.32xlarge".to_owned(), lnc: None, instance_id: None, driver: None };
    let _machine = fake_neuron::Machine::up(&spec, root, Catalog::embedded()).unwrap();
    let (system, health) = (watched.system(), HealthOptions::default());
    let (catalog, policy) = (Catalog::embedded(), Policy::Documented);
    let discovery =
        Discovery { system: &system, root, catalog, policy, instance_type: None, health: &health };
    discovery.look(None).await.unwrap()
}

#[tokio::test]
async fn a_look_at_the_health_of_a_device_is_five_operations() {
    let (dir, watched) = (tempfile::tempdir().unwrap(), Watched::new());
    let found = found(dir.path(), &watched).await;
    let before = watched.file_operations();
    assert!(found.look().await.iter().all(|(_, health)| *health == DeviceHealth::Healthy));
    assert_eq!(watched.file_operations() - before, 16 * 5);
}

/// Seen on a node whose processors were busy with something else: all devices were unhealthy for a moment.
#[tokio::test(start_paused = true)]
async fn files_that_are_read_slowly_one_after_the_other_do_not_hang() {
    let (dir, watched) = (tempfile::tempdir().unwrap(), Watched::new());
    let found = found(dir.path(), &watched).await;
    watched.slow_down(Duration::from_millis(700));
    assert!(found.look().await.iter().all(|(_, health)| *health == DeviceHealth::Healthy));
    watched.slow_down(Duration::from_millis(1100));
    let hangs = |health: &DeviceHealth| matches!(health, DeviceHealth::Unhealthy(fault) if fault.to_string().contains(" hangs: it could not be read in time"));
    assert!(found.look().await.iter().all(|(_, health)| hangs(health)));
}
