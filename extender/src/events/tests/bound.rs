//! What is told of pods that are bound, once it has held for a while.

use super::*;

/// A pod with a record of another node, of this number.
fn recorded(number: u8) -> ObservedPod {
    let record = json!({"v": 1, "node": format!("other-{number}"), "lnc": 1, "containers": {"main": {"devices": [0]}}});
    let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_string())]);
    let limits = json!({"aws.amazon.com/neuron": "1"});
    let spec = json!({"containers": [{"name": "main", "resources": {"limits": limits}}]});
    let spec: PodSpec = serde_json::from_value(spec).unwrap();
    let pod = BoundPod::new("default", "one", "one", annotations, &spec, None);
    ObservedPod { pod: Arc::new(pod), ..stray("one") }
}

/// A pod of which nothing says what it holds.
fn stray(name: &str) -> ObservedPod {
    ObservedPod { node: Some("n0000".into()), unschedulable: false, ..waiting(name, 1) }
}

#[tokio::test(start_paused = true)]
async fn what_is_to_be_told_of_one_node_is_told_at_the_rate_once_it_has_held() {
    let world = World::new(1, (0..100).map(|pod| stray(&format!("p{pod:04}"))).collect());
    world.explain_for(600, |_, _| {}).await;
    let sent = world.sent.lock().unwrap();
    let told: BTreeSet<&String> = sent.iter().map(|(_, pod, _)| pod).collect();
    assert_eq!((sent.len(), told.len()), (100, 100));
    // Fifty after ten seconds, and ten a second from then on; what waits for its turn need not hold anew.
    assert!(sent.iter().all(|(after, _, _)| (10..18).contains(after)), "{:?}", sent.last());
}

#[tokio::test(start_paused = true)]
async fn what_was_found_of_a_node_that_is_gone_is_forgotten() {
    let world = World::new(1, vec![stray("one"), waiting("other", 7)]);
    let node_goes = |cluster: &Cluster, told: &str| {
        if told == "other" {
            cluster.write(|index| index.change_nodes(Change::Gone("n0000".to_owned())));
        }
    };
    world.explain_for(5, node_goes).await;
    assert_eq!(world.sizes.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn who_leads_at_last_tells_everything_however_much_changed_before() {
    let world = World::new(1, vec![stray("one")]);
    let world = World { leadership: Arc::new(Leadership::elected()), ..world };
    let changes = async {
        for second in 0..30 {
            // Also amid a pause after a change.
            for pod in 0..20 {
                let name = format!("{second}-{pod}");
                world.cluster.write(|index| index.change_pods(Change::Applied(waiting(&name, 1))));
                sleep(Duration::from_millis(50)).await;
            }
            if second == 3 {
                world.leadership.lead_for(Duration::from_secs(600));
            }
        }
    };
    tokio::join!(world.explain_for(60, |_, _| {}), changes);
    assert!(world.notes().iter().any(|note| note.contains("not known which")), "{:?}", world.notes());
}

/// Of two explanations of one pod the second was sent, and the first is another one now.
#[tokio::test(start_paused = true)]
async fn what_could_not_be_sent_is_not_forgotten_for_what_was_sent_of_the_same_pod() {
    let world = World::new(1, vec![recorded(0)]);
    let changes = async {
        sleep(Duration::from_secs(30)).await;
        world.refusals.lock().unwrap().push(500);
        world.cluster.write(|index| index.change_pods(Change::Applied(recorded(99))));
    };
    tokio::join!(world.explain_for(120, |_, _| {}), changes);
    let notes = world.notes();
    assert_eq!(notes.len(), 3, "{notes:#?}");
}
