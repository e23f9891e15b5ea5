//! Plugin and kubelet of a node are killed at one time, as by a node whose services are restarted, with pods in every state that only one
//! of the two, or only kubelet's checkpoint, knows.
#![allow(clippy::unwrap_used, reason = "a failing test should say where")]

mod common;

use serde_json::{Value, json};
use simulated_cluster::plan::{ApiRates, Place, What};
use simulated_cluster::suite::Units;

use crate::common::{manifest, plan, pod, traced};

const NODE: Place = Place::Node(0);

fn kill(part: &str) -> What {
    What::Kill { part: part.to_owned(), on: NODE, after_polls: None }
}

/// `first` and `second` have what the other's record says, which the plugin could not put right: the API server fails, and is not reached
/// then. Of `waits` kubelet hears once both are back: what it lists as it starts it admits before any plugin can register, and refuses for
/// want of one.
#[test]
fn what_pods_hold_that_were_swapped_survives_plugin_and_kubelet() {
    let named = |mut pod: Value, name: &str| {
        pod["metadata"]["name"] = name.into();
        pod
    };
    let never: Vec<Value> = (0..8).map(|number| named(manifest(7), &format!("never{number}"))).collect();
    let mut cores = named(manifest(1), "next");
    cores["spec"]["containers"][0]["resources"]["limits"] = json!({"aws.amazon.com/neuroncore": "8"});
    let cut = |reset, seconds| What::Cut { from: NODE, to: Place::ApiServer, both: true, reset, seconds };
    let failing = ApiRates { internal: 1.0, ..ApiRates::default() };
    let mut events = vec![
        (60, pod("holds", 4)),
        (98, What::Freeze { part: "kubelet".to_owned(), on: NODE, seconds: 12 }),
        (100, pod("first", 4)),
        (102, pod("second", 4)),
        // Writes by which a cache can be behind and know of the pods before all the same.
        (103, What::Create { pods: never }),
        (105, What::ApiFaults { rates: failing, seconds: 10 }),
        (112, cut(false, 33)),
        (120, pod("waits", 4)),
        (139, What::CacheBehind { on: NODE, writes: 20, seconds: 60 }),
        (139, What::WatchLag { on: NODE, milliseconds: 60_000, seconds: 60 }),
        // What the plugin had tried to write is lost with it.
        (140, cut(true, 5)),
        (140, kill("kubelet")),
        (140, kill("plugin")),
        (400, What::Delete { pod: "first".to_owned(), grace: None }),
        (500, What::Create { pods: vec![cores] }),
        (900, What::Rest { seconds: 900 }),
    ];
    events.extend((0..8).map(|number| (600, What::Delete { pod: format!("never{number}"), grace: Some(0) })));
    events.sort_by_key(|(second, _)| *second);
    let mut plan = plan(1900, events);
    // Whose question is which no kubelet before 1.37 tells, and this one admits first what was bound last.
    plan.kubernetes = "1.34".to_owned();
    plan.settings.adversarial = true;
    let (summary, lines) = traced(&plan);
    let seconds = |text: &str| lines.seconds_of(text);
    // The observer has judged each start, and at rest that environment, file, record and report say the same.
    assert_eq!(summary.unknown, Vec::<String>::new(), "{:#?}", summary.violations);
    assert_eq!((summary.placed, summary.refused, summary.kills), (5, 0, 2));
    let starts = |pod: &str, cores: std::ops::Range<u32>| {
        let cores: Units = cores.collect();
        seconds(&format!("container: default/{pod} main starts with {cores:?}"))
    };
    assert_eq!(
        (starts("second", 8..16), starts("first", 16..24)),
        (Some(110), Some(110)),
        "{}",
        lines.text()
    );
    for pod in ["first", "second"] {
        let put_right = seconds(&format!("plugin/n1: PATCH /api/v1/namespaces/default/pods/{pod}? -> 200"));
        assert!(put_right > Some(140), "{pod}: {put_right:?}");
    }
    assert_eq!(summary.branches["plugin: record corrected"], 2);
    assert!(starts("waits", 24..32) > Some(145), "{}", lines.text());
    assert!(starts("next", 16..24).is_some(), "{}", lines.text());
}
