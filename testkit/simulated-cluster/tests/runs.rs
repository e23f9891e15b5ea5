//! What the summary of a run tells of kills and of a poll that does not return.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use simulated_cluster::plan::{Event, Listed, Place, What};
use simulated_cluster::profile::Profile;
use simulated_cluster::suite::{Program, RunsOn, Start, Suite};
use simulated_cluster::{RunOptions, Seeded, run};

/// An extender that does nothing but wake each second; from the minute on that it is told, it spins until it is let go.
#[derive(Clone, Default)]
struct Wakes {
    spins_after: Option<u32>,
    let_go: Arc<AtomicBool>,
}

impl Suite for Wakes {
    fn programs(&self) -> Vec<Program> {
        vec![Program { name: "extender", runs_on: RunsOn::Control, port: None }]
    }

    fn run(&self, _: Start) -> BoxFuture<'static, anyhow::Result<()>> {
        let Self { spins_after, let_go } = self.clone();
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
