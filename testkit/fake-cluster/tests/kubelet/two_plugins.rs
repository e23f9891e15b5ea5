//! Several plugins of one resource, on one path or on several, by version (docs/reference/kubernetes.md §6 and §8).

use std::time::Duration;

use fake_cluster::Version::{self, V1_34, V1_37};
use fake_cluster::kubelet::STOP_GRACE;
use kubelet_api::deviceplugin::v1beta1::HEALTHY;
use rstest::rstest;
use tonic::{Code, Status};

use crate::test_node::{GADGET, TestNode, WIDGET, widgets};
use crate::test_plugin::{TestPlugin, device, healthy};

/// Serves one widget that no other plugin has, on a path of its own.
fn another(node: &TestNode) -> TestPlugin {
    TestPlugin::serving(node, "another.sock", vec![device("x0", HEALTHY)])
}

/// A plugin in the place of one that was killed.
fn in_its_place(node: &TestNode) -> TestPlugin {
    std::fs::remove_file(node.plugins_dir().join("widget.sock")).unwrap();
    TestPlugin::serving(node, "widget.sock", healthy(2))
}

async fn runs(node: &TestNode, pod: &str) {
    node.bind(pod, widgets(1)).await;
    node.phase(pod, "Running").await;
}

/// Ends a plugin's stream, and waits until kubelet has seen the later end of another resource's.
async fn kill(node: &TestNode, plugin: &TestPlugin) {
    let later = TestPlugin::serving(node, "later.sock", healthy(1));
    later.register_as("v1beta1", GADGET).await.unwrap();
    node.shows_of(GADGET, "1", "1").await;
    plugin.kill();
    later.kill();
    node.shows_of(GADGET, "0", "1").await;
    std::fs::remove_file(node.plugins_dir().join("later.sock")).unwrap();
}

fn refused(result: Result<(), Status>, node: &TestNode) -> bool {
    let path = node.plugins_dir().join("widget.sock");
    let text = format!("device plugin already connected: {}", path.display());
    result.is_err_and(|status| (status.code(), status.message()) == (Code::Unknown, &text))
}

#[rstest]
#[case(V1_34)]
#[case(V1_37)]
#[tokio::test]
async fn the_last_registered_is_asked_and_the_last_list_counts(#[case] version: Version) {
    let node = TestNode::of(version);
    let _kubelet = node.kubelet().await;
    let old = TestPlugin::registered(&node, 2).await;
    let new = another(&node);
    new.register().await.unwrap();
    node.shows("1", "1").await;
    runs(&node, "p").await;
    assert_eq!((old.allocations(), new.allocations()), (0, 1));
    old.script.devices.send_replace(healthy(3));
    node.shows("3", "3").await;
    runs(&node, "q").await;
    assert_eq!((old.allocations(), new.allocations()), (0, 2));
}

#[rstest]
#[case::drops_the_newer(V1_34, "0")]
#[case::changes_nothing(V1_37, "1")]
#[tokio::test]
async fn the_end_of_the_older(#[case] version: Version, #[case] allocatable: &str) {
    let node = TestNode::of(version);
    let _kubelet = node.kubelet().await;
    let old = TestPlugin::registered(&node, 2).await;
    let new = another(&node);
    new.register().await.unwrap();
    node.shows("1", "1").await;
    kill(&node, &old).await;
    node.shows(allocatable, "1").await;
    if version == V1_34 {
        // It still serves, but kubelet only comes back to it when it registers again.
        new.register().await.unwrap();
        node.shows("1", "1").await;
    }
    runs(&node, "p").await;
    assert_eq!((old.allocations(), new.allocations()), (0, 1));
}

#[tokio::test]
async fn on_1_34_the_end_of_the_newer_takes_the_devices_away() {
    let node = TestNode::of(V1_34);
    let _kubelet = node.kubelet().await;
    let _old = TestPlugin::registered(&node, 2).await;
    let new = another(&node);
    new.register().await.unwrap();
    node.shows("1", "1").await;
    new.kill();
    node.shows("0", "1").await;
}

#[tokio::test]
async fn on_1_37_the_end_of_the_newer_promotes_the_older_and_the_last_end_takes_the_devices_away() {
    let node = TestNode::of(V1_37);
    let _kubelet = node.kubelet().await;
    let old = TestPlugin::registered(&node, 2).await;
    let new = another(&node);
    new.register().await.unwrap();
    node.shows("1", "1").await;
    kill(&node, &new).await;
    node.shows("1", "1").await;
    runs(&node, "p").await;
    assert_eq!((old.allocations(), new.allocations()), (1, 0));
    old.kill();
    node.shows("0", "1").await;
    node.clock.advance(STOP_GRACE);
    node.shows("0", "0").await;
}

#[rstest]
#[case(V1_34)]
#[case(V1_37)]
#[tokio::test]
async fn a_plugin_comes_again_on_its_path_when_kubelet_has_noticed_the_end(#[case] version: Version) {
    let node = TestNode::of(version);
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.kill();
    node.shows("0", "2").await;
    let again = in_its_place(&node);
    again.register().await.unwrap();
    node.shows("2", "2").await;
    runs(&node, "p").await;
    assert_eq!(again.allocations(), 1);
}

#[tokio::test]
async fn on_1_34_a_plugin_may_register_over_its_own_stream() {
    let node = TestNode::of(V1_34);
    let _kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    plugin.register().await.unwrap();
    plugin.kill();
    node.shows("0", "2").await;
}

/// What makes kubelet 1.37 lose sight of a plugin's end.
#[derive(Clone, Copy, PartialEq)]
enum Failed {
    /// The path is held.
    Held,
    /// GetDevicePluginOptions fails there.
    Options,
}

#[rstest]
#[case::because_it_is_held(Failed::Held)]
#[case::for_another_reason(Failed::Options)]
#[tokio::test]
async fn on_1_37_a_path_that_was_refused_once_is_dead_until_kubelet_restarts(#[case] failed: Failed) {
    let node = TestNode::of(V1_37);
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 2).await;
    if failed == Failed::Options {
        plugin.fail("options", Status::internal("no options"));
        assert!(plugin.register().await.unwrap_err().message().ends_with("no options"));
    } else {
        assert!(refused(plugin.register().await, &node));
    }
    // It keeps stream, list and Allocate.
    plugin.script.devices.send_replace(healthy(3));
    node.shows("3", "3").await;
    runs(&node, "before").await;
    assert_eq!(plugin.allocations(), 1);

    kill(&node, &plugin).await;
    node.clock.advance(STOP_GRACE + Duration::from_secs(1));
    node.shows("3", "3").await;
    let next = in_its_place(&node);
    assert!(refused(next.register().await, &node));
    runs(&node, "after").await;
    assert_eq!(next.allocations(), 1, "whoever listens on the path answers");

    // A plugin on another path works, and when it ends the dead one is asked again.
    let other = another(&node);
    other.register().await.unwrap();
    node.shows("1", "1").await;
    kill(&node, &other).await;
    node.shows("1", "1").await;

    kubelet.stop().await;
    let _kubelet = node.kubelet().await;
    let healed = TestPlugin::serving(&node, "widget.sock", healthy(2));
    healed.register().await.unwrap();
    node.shows_of(WIDGET, "2", "2").await;
}
