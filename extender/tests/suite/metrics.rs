//! What `/metrics` shows of calls and of the cluster.

use testkit_support::eventually;

use crate::support::World;

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
        "neuron_extender_pods_waiting 1".to_owned(),
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
}
