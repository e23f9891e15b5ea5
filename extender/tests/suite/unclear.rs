//! What only a Binding of unclear outcome keeps out is no refusal: kube-scheduler is told to try again, and does so by itself.

use std::time::Duration;

use neuron_extender::Config;
use serde_json::{Value, json};
use testkit_support::eventually;

use crate::support::{Fault, World};

const UNCLEAR: &str = "devices of node n1 are reserved for a pod of which it is not known yet whether it was bound; that is mostly known within \
                       a minute";

#[tokio::test]
async fn filter_answers_an_error_until_it_is_known_what_became_of_a_binding() {
    let config = Config { bind_deadline: Duration::from_millis(400), ..Config::default() };
    let world = World::configured(config, &[("n1", "inf2.24xlarge"), ("n2", "inf2.xlarge")]).await;
    let (one, all) = (world.pod("one", "neuron", 1).await, world.pod("all", "neuron", 6).await);
    world.faults.push(Fault::CallLost);
    let error = world.bind(&one, "n1").await;
    assert!(error.starts_with("it is not clear whether the pod was bound: "), "{error}");

    let answer = world.filter(&all, &["n1", "n2"]).await;
    let failure = json!({
        "Nodes": null, "NodeNames": null, "FailedNodes": {}, "FailedAndUnresolvableNodes": {}, "Error": UNCLEAR,
    });
    assert_eq!(answer, failure, "nothing is refused of what may be free in a moment");
    // As whole nodes, too.
    let nodes = json!({"metadata": {}, "items": [{"metadata": {"name": "n1"}}]});
    let args = json!({"Pod": all, "Nodes": nodes, "NodeNames": null});
    let answer: Value = serde_json::from_str(&world.post("/filter", args).await).unwrap();
    assert_eq!(answer, failure);

    // Who fits beside it is not held up, and who never fits is told so.
    let (five, seven) = (world.pod("five", "neuron", 5).await, world.pod("seven", "neuron", 7).await);
    assert!(world.fits(&five, "n1").await && world.fits(&one, "n1").await);
    let never = world.filter(&seven, &["n1"]).await;
    assert_eq!(never["Error"], "");
    assert!(never["FailedAndUnresolvableNodes"]["n1"].is_string(), "{never}");

    world.delete("one").await;
    eventually("all devices to be free", async || world.fits(&all, "n1").await.then_some(())).await;
    assert_eq!(world.bind(&all, "n1").await, "");
}
