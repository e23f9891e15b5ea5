//! What an observer sees of how much the plugin keeps.

use neuron_device_plugin::{Probe, Sizes};
use testkit_support::eventually;

use crate::node::{Node, asks};

#[tokio::test]
async fn a_probe_shows_what_the_plugin_keeps_while_it_runs() {
    let mut node = Node::new("inf2.24xlarge");
    let probe = Probe::default();
    node.config.probe = Some(probe.clone());
    assert_eq!(probe.sizes(), None, "nothing runs yet");
    let kubelet = node.kubelet().await;
    let plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 6).await;
    node.shows("aws.amazon.com/neuroncore", 12).await;
    let shows = async |sizes: Sizes| {
        let same = async || (probe.sizes() == Some(sizes)).then_some(());
        eventually(&format!("{sizes:?}, not {:?}", probe.sizes()), same).await;
    };
    // That nobody looks at processes of gone pods is a note.
    shows(Sizes { notes: 2, ..Sizes::default() }).await;
    node.place("p", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.phase("p", "Running").await;
    shows(Sizes { entries: 1, pods: 1, past: 1, notes: 2, ..Sizes::default() }).await;
    node.delete("p").await;
    // kubelet drops the entries of ended pods with the next allocation.
    shows(Sizes { entries: 1, gone: 1, past: 1, notes: 2, ..Sizes::default() }).await;
    kubelet.stop().await;
    shows(Sizes { entries: 1, gone: 1, past: 1, notes: 2, problems: 2, ..Sizes::default() }).await;
    plugin.stop().await;
    assert_eq!(probe.sizes(), None, "nothing of the plugin is kept");
}
