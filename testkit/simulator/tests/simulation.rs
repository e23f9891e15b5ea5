//! What a simulation promises: the same run for the same seed, time that jumps, and an end that is one.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "what libraries ask is simulated too"
)]

use std::collections::HashMap;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use simulator::executor::Order;
use simulator::{Finished, How, Options, Simulation, Stuck, run};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// Some hundred tasks that wake each other by what libraries leave to chance.
async fn chance(simulation: Simulation) -> Vec<usize> {
    let order = Arc::new(Mutex::new(Vec::new()));
    let (bell, heard) = watch::channel(());
    let system = simulation.host("h").process("p").system();
    for number in 0..50 {
        let (order, mut heard, simulation) = (Arc::clone(&order), heard.clone(), simulation.clone());
        system.spawn(async move {
            while heard.changed().await.is_ok() {
                order.lock().unwrap().push(number);
                let map: HashMap<usize, ()> = (0..3).map(|key| (key, ())).collect();
                simulation
                    .event("p", format_args!("{number} {:?} {:?}", map.keys().next(), SystemTime::now()));
                tokio::select! {
                    () = std::future::ready(()) => order.lock().unwrap().push(1000),
                    () = std::future::ready(()) => {}
                }
            }
        });
    }
    for _ in 0..10 {
        sleep(Duration::from_secs(1)).await;
        bell.send_replace(());
    }
    sleep(Duration::from_secs(1)).await;
    drop(bell);
    order.lock().unwrap().iter().copied().filter(|number| *number < 1000).collect()
}

#[test]
fn the_same_seed_is_the_same_run_and_another_seed_another() {
    let once = |seed| run(Options::new(seed), chance);
    let (first, again, other) = (once(1), once(1), once(2));
    assert_eq!(first.result.as_ref().unwrap().len(), 500);
    assert_eq!((first.hash, &first.result), (again.hash, &again.result));
    assert_ne!(first.hash, other.hash);
    assert_ne!(first.result, other.result, "the order is of the seed");
    let by_age = run(Options { order: Order::ByAge, ..Options::new(1) }, chance).result.unwrap();
    assert!(by_age.chunks(50).all(|wave| wave.is_sorted()), "{by_age:?}");
}

#[test]
fn a_year_takes_no_time() {
    let year = Duration::from_secs(365 * 24 * 3600);
    let finished = run(Options::new(1), async move |simulation: Simulation| {
        sleep(year).await;
        simulation.elapsed()
    });
    assert_eq!(finished.result, Some(year));
}

#[test]
fn a_main_future_that_waits_for_what_can_never_come_is_given_up() {
    let finished: Finished<()> = run(Options::new(1), |_| std::future::pending());
    assert_eq!((finished.result, finished.panics), (None, Vec::new()));
}

#[test]
fn panics_are_told_with_their_part() {
    let finished: Finished<()> = run(Options::new(1), async |simulation: Simulation| {
        let task = simulation.host("h").process("program").system().spawn(async { panic!("first") });
        task.await.unwrap_err();
        panic!("second");
    });
    let told = finished.panics.iter().map(|panic| (panic.part.as_str(), panic.message.as_str()));
    assert_eq!(told.collect::<Vec<_>>(), [("program", "first"), ("simulation", "second")]);
    assert!(finished.panics[0].location.contains("tests/simulation.rs"), "{:?}", finished.panics);
    assert_eq!(finished.result, None);
}

#[test]
fn tasks_that_wake_each_other_without_end_while_no_time_passes_end_the_run() {
    let finished = run(Options::new(1), async |simulation: Simulation| {
        let system = simulation.host("h").process("p").system();
        sleep(Duration::from_secs(5)).await;
        system.spawn(async {
            loop {
                tokio::task::yield_now().await;
            }
        });
        sleep(Duration::from_secs(5)).await;
    });
    let stuck = finished.stuck.unwrap();
    assert!(stuck.part == "p" && matches!(stuck.how, How::TimeStandsStill { .. }), "{stuck}");
    assert_eq!((finished.result, finished.elapsed), (None, Duration::from_secs(5)));
}

#[test]
fn a_poll_that_does_not_return_ends_the_run_in_real_time() {
    let (go_on, stuck) = mpsc::channel::<()>();
    let (over, is_over) = mpsc::channel::<()>();
    let options = Options { poll_limit: Duration::from_millis(100), ..Options::new(1) };
    let limit = options.poll_limit;
    let finished = run(options, async move |simulation: Simulation| {
        let _over = over;
        sleep(Duration::from_secs(5)).await;
        simulation.event("p", format_args!("spins"));
        simulation.host("h").process("p").system().spawn(async move { stuck.recv().unwrap() }).await
    });
    let how = How::PollDoesNotReturn { limit };
    assert_eq!(finished.stuck, Some(Stuck { part: "p".to_owned(), how }));
    assert_eq!((finished.result, finished.elapsed), (None, Duration::from_secs(5)));
    assert_eq!(finished.last_events[0], "0d 00:00:05.000 p: spins");
    // When the poll returns after all, its thread ends.
    go_on.send(()).unwrap();
    let ended = is_over.recv_timeout(Duration::from_secs(20));
    assert_eq!(ended, Err(mpsc::RecvTimeoutError::Disconnected));
}

#[test]
fn activity_is_counted_by_part() {
    let finished = run(Options { order: Order::ByAge, ..Options::new(1) }, async |simulation: Simulation| {
        let host = simulation.host("h");
        let bell = Arc::new(Notify::new());
        for _ in 0..2 {
            let heard = Arc::clone(&bell);
            host.process("p").system().spawn(async move {
                heard.notified().await;
                tracing::info!("heard");
                tracing::debug!("not counted");
            });
        }
        sleep(Duration::from_secs(1)).await;
        bell.notify_waiters();
        sleep(Duration::from_secs(1)).await;
    });
    let activity = finished.activity["p"];
    assert_eq!((activity.starts, activity.polls, activity.log_lines), (2, 4, 2));
}

#[test]
fn a_program_has_as_much_stack_as_on_a_main_thread() {
    /// Needs 64 to 128 KiB for each level, as the futures of a debug build may.
    fn deep(levels: usize) -> usize {
        let frame = std::hint::black_box([levels; 8 << 10]);
        frame[0] + if levels == 0 { 0 } else { deep(levels - 1) }
    }
    let finished = run(Options::new(1), |_| async { deep(40) });
    assert_eq!(finished.result, Some((0..=40).sum()));
}
