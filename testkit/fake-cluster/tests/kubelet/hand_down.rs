//! Hand-down: which ids an init container leaves to later containers, and what the plugin is asked about them.

use fake_cluster::kubelet::FreeChoices;
use rstest::rstest;
use serde_json::{Value, json};

use crate::test_node::{TestNode, container, ending, ids_of};
use crate::test_plugin::{Call, TestPlugin, ids};

fn init(count: u32) -> Value {
    ending(container("init", count), 0, 0)
}

fn sidecar(count: u32) -> Value {
    let mut sidecar = container("side", count);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

/// The init container's count, the apps' counts and how many preferred calls follow the first.
#[rstest]
#[case::all_to_one(4, vec![4], vec![])]
#[case::shared_by_two(4, vec![2, 2], vec![])]
#[case::fewer(4, vec![1], vec![])]
#[case::more_makes_them_must_include(2, vec![3], vec![(2, 3)])]
#[case::rest_of_them(2, vec![1, 2], vec![(1, 2)])]
#[tokio::test]
async fn apps_take_over_from_an_init_container(
    #[case] init_count: u32,
    #[case] apps: Vec<u32>,
    #[case] later_calls: Vec<(usize, i32)>,
    #[values(FreeChoices::Seeded(7), FreeChoices::Adversarial)] free_choices: FreeChoices,
) {
    let node = TestNode::with(free_choices);
    let kubelet = node.kubelet().await;
    let plugin = TestPlugin::registered(&node, 8).await;
    let containers: Vec<Value> =
        apps.iter().enumerate().map(|(number, count)| container(&format!("app{number}"), *count)).collect();
    node.bind("p", json!({ "initContainers": [init(init_count)], "containers": containers })).await;
    node.phase("p", "Running").await;

    let from_init = ids_of(&kubelet, "init");
    let mut taken = std::collections::BTreeSet::new();
    for (number, count) in apps.iter().enumerate() {
        let own = ids_of(&kubelet, &format!("app{number}"));
        assert_eq!(own.len(), *count as usize);
        assert!(own.is_disjoint(&taken), "apps share nothing");
        taken.extend(own);
    }
    let total: u32 = apps.iter().sum();
    assert_eq!(taken.intersection(&from_init).count(), total.min(init_count) as usize);
    let later: Vec<(usize, i32)> = plugin
        .calls()
        .into_iter()
        .filter_map(|call| {
            if let Call::Preferred { must, size, .. } = call { Some((must.len(), size)) } else { None }
        })
        .skip(1)
        .collect();
    assert_eq!(later, later_calls);
}

#[tokio::test]
async fn a_pod_with_a_restartable_init_container_keeps_its_own_devices() {
    let node = TestNode::new();
    let kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 2).await;
    node.bind("p", json!({ "initContainers": [sidecar(1)], "containers": [container("main", 1)] })).await;
    node.phase("p", "Running").await;
    assert!(ids_of(&kubelet, "side").is_disjoint(&ids_of(&kubelet, "main")));
}

#[tokio::test]
async fn kubelet_picks_at_random_among_handed_down_ids() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..12 {
        let node = TestNode::with(FreeChoices::Seeded(seed));
        let kubelet = node.kubelet().await;
        let _plugin = TestPlugin::registered(&node, 4).await;
        node.bind("p", json!({ "initContainers": [init(4)], "containers": [container("main", 2)] })).await;
        node.phase("p", "Running").await;
        seen.insert(ids_of(&kubelet, "main"));
    }
    assert!(seen.len() > 2, "always the same ids: {seen:?}");
}

#[tokio::test]
async fn an_adversarial_kubelet_scatters_what_it_hands_down() {
    let node = TestNode::with(FreeChoices::Adversarial);
    let kubelet = node.kubelet().await;
    let _plugin = TestPlugin::registered(&node, 12).await;
    node.bind("p", json!({ "initContainers": [init(12)], "containers": [container("main", 2)] })).await;
    node.phase("p", "Running").await;
    assert_eq!(ids_of(&kubelet, "main"), ids(["w0", "w11"]));
}
