//! What `/metrics` shows of calls and of the cluster.

use serde_json::json;
use testkit_support::eventually;

use crate::support::{World, bound, pod};

#[tokio::test]
async fn calls_are_counted_and_what_is_free_is_shown() {
    let world = World::with_nodes(&[("n1", "trn1.32xlarge")]).await;
    for (name, count) in [("one", 1), ("four", 4)] {
        let pod = world.pod(name, "neuron", count).await;
        assert!(world.fits(&pod, "n1").await);
        assert_eq!(world.bind(&pod, "n1").await, "");
    }
    let sixteen = world.pod("sixteen", "neuron", 16).await;
    assert!(!world.fits(&sixteen, "n1").await);
    let node = "node=\"n1\",instance_type=\"trn1.32xlarge\"";
    let lines = [
        format!("neuron_extender_devices{{{node},state=\"held\"}} 5"),
        format!("neuron_extender_cores{{{node},state=\"free\"}} 22"),
        format!("neuron_extender_cores{{{node},state=\"unhealthy\"}} 0"),
        // Of 11 devices 8 are two whole rows, or two whole columns.
        format!("neuron_extender_largest_free_set{{{node}}} 8"),
        "neuron_extender_verb_seconds_count{verb=\"bind\",result=\"bound\"} 2".to_owned(),
        "neuron_extender_verb_seconds_count{verb=\"filter\",result=\"fits\"} 2".to_owned(),
        "neuron_extender_verb_seconds_count{verb=\"filter\",result=\"refused\"} 1".to_owned(),
        "neuron_extender_refusals_total{reason=\"not_enough\"} 1".to_owned(),
        "neuron_extender_bind_part_seconds_count{part=\"binding\"} 2".to_owned(),
        "neuron_extender_calls_in_flight{verb=\"bind\"} 0".to_owned(),
        "neuron_extender_watch_connected{watch=\"pods\"} 1".to_owned(),
        "neuron_extender_watch_connected{watch=\"leases\"} 1".to_owned(),
        "neuron_extender_pods_waiting 1".to_owned(),
        "neuron_extender_drifted_pods{kind=\"ignored_record\"} 0".to_owned(),
        "neuron_extender_drifted_pods{kind=\"shared_devices\"} 0".to_owned(),
        "neuron_extender_searches_given_up_total{verb=\"filter\"} 0".to_owned(),
        "neuron_extender_searches_given_up_total{verb=\"bind\"} 0".to_owned(),
        "neuron_extender_reservations 0".to_owned(),
    ];
    // The watch shows the second pod a moment after its bind.
    let missing = async || {
        let (_, text) = world.get("/metrics").await;
        let is_missing = |line: &&String| !text.lines().any(|shown| shown == **line);
        let missing: Vec<&String> = lines.iter().filter(is_missing).collect();
        println!("missing: {missing:?}");
        missing.is_empty().then_some(())
    };
    eventually("every line", missing).await;
    // One device, and four, were each searched for.
    let (_, text) = world.get("/metrics").await;
    let counter = "neuron_extender_search_moves_total{verb=\"bind\"} ";
    let moves = text.lines().find_map(|line| line.strip_prefix(counter));
    assert!(moves.is_some_and(|moves| moves.parse::<u32>().is_ok_and(|moves| moves >= 2)), "{moves:?} moves");
}

/// Whether `/metrics` shows a line that begins so.
async fn shows(world: &World, begins: &str) -> Option<()> {
    let (_, text) = world.get("/metrics").await;
    text.lines().any(|line| line.starts_with(begins)).then_some(())
}

#[tokio::test]
async fn a_record_that_the_report_contradicts_and_shared_cores_are_drift() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let record = json!({"v": 1, "node": "n1", "lnc": 1, "containers": {"main": {"cores": [2, 3]}}});
    let annotations = json!({"neuron-scheduler/allocation": record.to_string()});
    let recorded = world.create(bound(pod("recorded", "neuroncore", 2), "n1", annotations)).await;
    let other = world.create(bound(pod("other", "neuroncore", 2), "n1", json!({}))).await;
    let holder = |name: &str, uid: &Option<String>, cores: [u8; 2]| json!({"pod": format!("default/{name}"), "uid": uid, "cores": cores});
    let devices: Vec<_> = (0..6).map(|id| json!({"id": id, "links": [], "health": "Healthy"})).collect();
    let holders =
        [holder("recorded", &recorded.metadata.uid, [0, 1]), holder("other", &other.metadata.uid, [1, 2])];
    let report =
        json!({"v": 1, "instanceType": "inf2.24xlarge", "lnc": 1, "devices": devices, "holders": holders});
    world.annotate_node("n1", "neuron-scheduler/devices", &report.to_string()).await;
    for line in [
        "neuron_extender_drifted_pods{kind=\"shared_devices\"} 2",
        "neuron_extender_drifted_pods{kind=\"ignored_record\"} 1",
        "neuron_extender_watch_age_seconds{watch=\"nodes\"} 0.",
        "neuron_extender_watch_age_seconds{watch=\"leases\"} 0.",
    ] {
        eventually(line, async || shows(&world, line).await).await;
    }
}
