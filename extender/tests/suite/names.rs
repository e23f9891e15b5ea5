//! The same hardware asked for under its three names: what one pod holds under one is refused to another under the others (T31 of the
//! conformance list).

use rstest::rstest;
use serde_json::json;
use testkit_support::eventually;

use crate::support::World;

const NO_DEVICE: &str = "not enough free: Neuron devices asked 1, free 0 of 1";
const NO_CORE: &str = "not enough free: Neuron cores asked 1, free 0 of 2";

#[rstest]
#[case::old_name_then_new("neurondevice", "neuron", NO_DEVICE)]
#[case::old_name_then_core("neurondevice", "neuroncore", NO_CORE)]
#[case::new_name_then_old("neuron", "neurondevice", NO_DEVICE)]
#[case::new_name_then_core("neuron", "neuroncore", NO_CORE)]
#[case::core_then_old_name("neuroncore", "neurondevice", NO_DEVICE)]
#[case::core_then_new_name("neuroncore", "neuron", NO_DEVICE)]
#[tokio::test]
async fn what_a_pod_holds_under_one_name_is_refused_under_the_others(
    #[case] held: &str,
    #[case] asked: &str,
    #[case] refused: &str,
) {
    let mut world = World::that_restarts(&[("n1", "inf2.xlarge")]).await;
    let (holder, next) = (world.pod("holder", held, 1).await, world.pod("next", asked, 1).await);
    assert_eq!(world.bind(&holder, "n1").await, "");
    assert_eq!(world.filter(&next, &["n1"]).await["FailedNodes"], json!({"n1": refused}));
    assert_eq!(world.bind(&next, "n1").await, refused);
    // By its record alone, too.
    world.stop().await;
    world.start().await;
    assert_eq!(world.filter(&next, &["n1"]).await["FailedNodes"], json!({"n1": refused}));
    assert_eq!(world.bind_after_start(&next, "n1").await, refused);
    assert_eq!(world.placed("next").await, (None, None));

    world.delete("holder").await;
    eventually("the hardware is free", async || world.fits(&next, "n1").await.then_some(())).await;
    assert_eq!(world.bind(&next, "n1").await, "");
    assert_eq!(world.placed("next").await, (Some("n1".into()), Some("0".into())));
}
