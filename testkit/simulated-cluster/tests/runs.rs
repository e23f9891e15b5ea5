//! What the summary of a run tells of kills and of a poll that does not return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;
use simulated_cluster::observer::{Known, PodTruth, Truth};
use simulated_cluster::plan::{Event, Listed, NodePlan, Place, Settings, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::suite::{Program, RunsOn, Start, Suite};
use simulated_cluster::{RunOptions, Seeded, run};

/// An extender that does nothing but wake each second; from the minute on that it is told, it spins until it is let go.
#[derive(Clone, Default)]
struct Wakes {
    has_replicas: bool,
    spins_after: Option<u32>,
    let_go: Arc<AtomicBool>,
}

impl Suite for Wakes {
    fn programs(&self) -> Vec<Program> {
        vec![Program { name: "extender", runs_on: RunsOn::Control, port: None }]
    }

    fn has_replicas(&self, _: &Program, _: &Settings) -> bool {
        self.has_replicas
    }

    fn run(&self, _: Start) -> BoxFuture<'static, anyhow::Result<()>> {
        let Self { spins_after, let_go, .. } = self.clone();
        async move {
            for second in 0.. {
                tokio::time::sleep(Duration::from_secs(1)).await;
                while spins_after.is_some_and(|minutes| second / 60 >= minutes)
                    && !let_go.load(Ordering::Relaxed)
                {
                    std::hint::spin_loop();
                }
            }
            Ok(())
        }
        .boxed()
    }
}

/// A cluster of which a pod is wrong at rest, and whose extender ends by itself once.
#[derive(Default)]
struct GoesWrong {
    extenders: AtomicUsize,
}

impl Suite for GoesWrong {
    fn programs(&self) -> Vec<Program> {
        vec![Program { name: "extender", runs_on: RunsOn::Control, port: None }]
    }

    fn run(&self, _: Start) -> BoxFuture<'static, anyhow::Result<()>> {
        let is_first = self.extenders.fetch_add(1, Ordering::Relaxed) == 0;
        async move {
            tokio::time::sleep(Duration::from_secs(60)).await;
            anyhow::ensure!(!is_first, "it is wrong once");
            std::future::pending().await
        }
        .boxed()
    }

    fn judge_pod(&self, _: &Truth, _: &NodePlan, pod: &PodTruth) -> Option<(String, String)> {
        (pod.name() == "default/wrong").then(|| ("a pod is wrong".to_owned(), "it is".to_owned()))
    }
}

fn seeded() -> Seeded {
    Seeded::new(1, Profile::Calm, ["any"], Duration::from_secs(600))
}

#[test]
fn kills_are_counted_and_those_by_poll_are_faults_where_they_happen() -> anyhow::Result<()> {
    let suite = Wakes::default();
    let kills = vec![("extender".to_owned(), 20), ("extender".to_owned(), 50), ("extender".to_owned(), 9999)];
    let plan = Seeded { kills, ..seeded() }.plan(&suite);
    let killed = What::Kill { part: "extender".to_owned(), on: Place::Control, after_polls: None };
    let events = vec![Event { at: 200_000, what: killed }];
    let summary = run(&plan, Box::new(Listed::new(events)), Arc::new(suite), RunOptions::default())?;
    assert_eq!((summary.kills, summary.restarts), (3, 3));
    assert_eq!(summary.faults["kill extender"], 3);
    Ok(())
}

#[test]
fn a_replica_is_killed_by_its_own_polls_alone() -> anyhow::Result<()> {
    for part in ["extender", "extender/control-2"] {
        let suite = Wakes { has_replicas: true, ..Wakes::default() };
        let plan = Seeded { kills: vec![(part.to_owned(), 50)], ..seeded() }.plan(&suite);
        let summary = run(&plan, Box::new(Listed::new(Vec::new())), Arc::new(suite), RunOptions::default())?;
        assert_eq!((summary.kills, summary.missed_kills), (1, Vec::new()), "{part}");
    }
    Ok(())
}

#[test]
fn a_part_is_killed_before_one_of_its_next_polls_or_not_at_all() -> anyhow::Result<()> {
    let suite = Wakes::default();
    let plan = seeded().plan(&suite);
    let kill = |at, polls| {
        let what = What::Kill { part: "extender".to_owned(), on: Place::Control, after_polls: Some(polls) };
        Event { at, what }
    };
    // It is polled each second: ten times is soon, 200 times is after the minute in which it may be killed.
    let events = vec![kill(100_000, 10), kill(200_000, 200)];
    let summary = run(&plan, Box::new(Listed::new(events)), Arc::new(suite), RunOptions::default())?;
    assert_eq!((summary.kills, summary.restarts), (1, 1));
    assert_eq!(summary.faults["kill extender"], 1);
    Ok(())
}

#[test]
fn a_poll_that_does_not_return_is_a_violation_with_the_events_before_it() -> anyhow::Result<()> {
    let suite = Wakes { spins_after: Some(2), ..Wakes::default() };
    let let_go = Arc::clone(&suite.let_go);
    let options = RunOptions { poll_limit: Duration::from_secs(1), ..RunOptions::default() };
    let summary = seeded().run(suite, options)?;
    let_go.store(true, Ordering::Relaxed);
    assert_eq!(summary.unknown, ["stuck: extender: a poll does not return"]);
    let seen = &summary.violations.0[&summary.unknown[0]];
    assert_eq!(seen.text, "extender: a poll has not returned for 1s");
    assert!((120_000..130_000).contains(&seen.first), "{seen:?}");
    assert!(seen.last_events.iter().any(|event| event.ends_with("extender: starts on control")), "{seen:?}");
    Ok(())
}

#[test]
fn a_known_violation_is_counted_and_the_run_goes_on_from_a_healed_world() -> anyhow::Result<()> {
    let pod = |name: &str| {
        let spec = json!({"schedulerName": "my-scheduler", "containers": [{"name": "main", "image": "any"}]});
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})
    };
    let whats = [
        (10_000, What::Create { pods: vec![pod("wrong"), pod("right")] }),
        (20_000, What::Rest { seconds: 1000 }),
        // Healed by then, or it would be wrong once more.
        (1_100_000, What::Rest { seconds: 1000 }),
    ];
    let run = |known_of: &[&str]| {
        let known = |signature: &&str| Known {
            signature: (*signature).to_owned(),
            cause: "this test".to_owned(),
            issue: "none".to_owned(),
            plan: None,
        };
        let known = known_of.iter().map(known).collect();
        let seeded = Seeded::new(1, Profile::Calm, ["any"], Duration::from_secs(2400));
        let suite = GoesWrong::default();
        let plan = seeded.plan(&suite);
        let events = whats.iter().map(|(at, what)| Event { at: *at, what: what.clone() }).collect();
        simulated_cluster::run(
            &plan,
            Box::new(Listed::new(events)),
            Arc::new(suite),
            RunOptions { known, ..RunOptions::default() },
        )
    };
    let signatures = ["agreement: a pod is wrong", "runs: extender ended by itself: it is wrong once"];
    let summary = run(&signatures)?;
    assert_eq!((summary.seconds, summary.unknown), (2400, Vec::new()));
    let counts = signatures.map(|signature| summary.violations.0[signature].count);
    assert_eq!((counts, summary.ended), ([1, 1], 1));
    let unknown = run(&signatures[1..])?;
    assert_eq!((unknown.seconds, &*unknown.unknown[0]), (1020, signatures[0]), "an unknown one ends the run");
    Ok(())
}
