//! Many binds to one node at the same time.

use std::sync::Arc;

use neuron_core::ids::CoreSet;
use testkit_support::eventually;
use tokio::sync::Semaphore;

use crate::support::{Fault, World};

#[tokio::test]
async fn forty_binds_to_one_node_never_share_a_core_nor_wait_for_each_other() {
    let world = World::with_nodes(&[("n1", "trn1.32xlarge")]).await;
    let gate = Arc::new(Semaphore::new(0));
    let mut pods = Vec::new();
    for number in 0..40 {
        world.faults.push(Fault::Held(gate.clone()));
        pods.push(world.pod(&format!("pod-{number}"), "neuroncore", 1).await);
    }
    let probe = world.pod("probe", "neuroncore", 1).await;
    let binds: Vec<_> = pods.iter().map(|pod| world.bind_later(pod, "n1")).collect();
    // No Binding has been answered, yet all 32 cores have been chosen: nobody waited for the API server.
    eventually("all cores are reserved", async || (!world.fits(&probe, "n1").await).then_some(())).await;
    gate.add_permits(40);
    let mut refused = 0;
    for bind in binds {
        let error = bind.await.unwrap();
        if !error.is_empty() {
            assert_eq!(error, "not enough free: Neuron cores asked 1, free 0 of 32");
            refused += 1;
        }
    }
    assert_eq!(refused, 8);
    let mut held = CoreSet::EMPTY;
    for number in 0..40 {
        if let (Some(_), Some(ids)) = world.placed(&format!("pod-{number}")).await {
            let ids: CoreSet = ids.parse().unwrap();
            assert!(!held.intersects(ids), "cores {ids} were given twice");
            held = held.union(ids);
        }
    }
    assert_eq!(held, CoreSet::run(0, 32));
}

#[tokio::test]
async fn one_pod_bound_twice_at_once_holds_one_set() {
    let world = World::with_nodes(&[("n1", "inf2.24xlarge")]).await;
    let pod = world.pod("one", "neuron", 1).await;
    let gate = Arc::new(Semaphore::new(0));
    world.faults.push(Fault::Held(gate.clone()));
    world.faults.push(Fault::Held(gate.clone()));
    let (first, second) = (world.bind_later(&pod, "n1"), world.bind_later(&pod, "n1"));
    gate.add_permits(2);
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (String::new(), String::new()));
    let five = world.pod("five", "neuron", 5).await;
    assert_eq!(world.bind(&five, "n1").await, "");
}
