//! What the plugin shows at `/metrics`: the names that docs/metrics.md lists, and what an Allocate leaves there.

use std::collections::BTreeSet;
use std::time::Duration;

use neuron_device_plugin::metrics::{Metrics, Now, Preferred};
use testkit_support::eventually;

use crate::node::{Node, get};

const DOCUMENTED: &str = include_str!("../../../docs/metrics.md");

/// `name type` of every metric in OpenMetrics' text, without the prefix.
fn shown(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE neuron_device_plugin_"));
    types.map(str::to_owned).collect()
}

/// The same of the table.
fn documented() -> BTreeSet<String> {
    let (plugin, _) = DOCUMENTED.split_once("## The extender").unwrap();
    let rows = plugin.lines().filter_map(|line| line.strip_prefix("| `"));
    rows.map(|row| {
        let (name, rest) = row.split_once("` | ").unwrap();
        format!("{name} {}", rest.split_once(" |").unwrap().0)
    })
    .collect()
}

#[test]
fn the_documented_metrics_are_those_that_are_shown() {
    let metrics = Metrics::default();
    let (resource, time) = ("aws.amazon.com/neuron", Duration::ZERO);
    metrics.starting(resource);
    metrics.allocate(resource, time, Some("held"));
    metrics.preferred(resource, time, Preferred::Nothing);
    let devices = Some([1, 2, 0]);
    // One that is well again is not shown any more.
    drop(metrics.text(&Now { faults: vec![(0, "reset"), (1, "missing")], devices, ..Now::default() }));
    let (ids, faults) = (vec![(resource, [1, 0])], vec![(1, "missing"), (2, "memory_errors")]);
    let text = metrics.text(&Now { ids, devices, faults, ..Now::default() });
    assert_eq!(shown(&text), documented());
    insta::assert_snapshot!("device_plugin", testkit_support::metrics::without_times(&text));
}

#[tokio::test]
async fn what_kubelet_asks_is_counted_and_what_is_now_is_shown() {
    let mut node = Node::new("inf2.xlarge");
    let address = node.listen();
    let _kubelet = node.kubelet().await;
    let _plugin = node.plugin();
    node.shows("aws.amazon.com/neuron", 1).await;
    node.shows("aws.amazon.com/neuroncore", 2).await;
    let before = get(address, "/metrics").await.unwrap();
    for line in [
        "neuron_device_plugin_ids{resource=\"aws.amazon.com/neuroncore\",state=\"healthy\"} 2",
        "neuron_device_plugin_ids{resource=\"aws.amazon.com/neuron\",state=\"unhealthy\"} 0",
        "neuron_device_plugin_devices{health=\"Healthy\"} 1",
        "neuron_device_plugin_lnc 1",
        "neuron_device_plugin_registrations_total{resource=\"aws.amazon.com/neuron\",result=\"registered\"} 1",
        "neuron_device_plugin_registrations_total{resource=\"aws.amazon.com/neuron\",result=\"failed\"} 0",
        "neuron_device_plugin_handovers_total{result=\"closed\"} 0",
    ] {
        assert!(before.lines().any(|shown| shown == line), "{line} is not in {before}");
    }
    node.a_pod_runs(1).await;
    let given = "neuron_device_plugin_allocate_seconds_count{resource=\"aws.amazon.com/neuron\",result=\"given\"} 1\n";
    let ages =
        ["checkpoint_age_seconds", "report_age_seconds"].map(|name| format!("neuron_device_plugin_{name} "));
    let shown = async || {
        let text = get(address, "/metrics").await?;
        (text.contains(given) && ages.iter().all(|age| text.contains(age))).then_some(())
    };
    eventually("the Allocate to be counted", shown).await;

    std::fs::remove_file(node.machine.root().join("dev/neuron0")).unwrap();
    let fault = "neuron_device_plugin_device_fault{device=\"0\",reason=\"missing\"} 1\n";
    let shown = async || get(address, "/metrics").await?.contains(fault).then_some(());
    eventually("the device's fault to be shown", shown).await;
}
