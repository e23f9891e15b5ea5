//! How fast the processors are, and how many want them. Asked by every wait; [`piece_of_work`] also by benches.
//!
//! On shared hardware the same work takes up to twice the processor time from one minute to the next, for neighbours that
//! use the same caches and the other half of each core are nowhere counted as time.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

/// The largest slowdown that is believed.
pub const LARGEST_SLOWDOWN: f64 = 10.0;

/// How many objects are read in a piece of work, which then is a fifth of a millisecond or so.
const OBJECTS: usize = 100;

thread_local! {
    /// Whether this thread waits by a time that no processor slows down.
    static IGNORED: Cell<bool> = const { Cell::new(false) };
}

/// Has waits of this thread last as long as they say from now on, as in a simulation: its time stands still while anything is
/// computed, and two runs of it must wait equally long.
pub fn ignore_on_this_thread() {
    IGNORED.set(true);
}

/// How much longer things take now than on idle processors at their fastest, from 1 to [`LARGEST_SLOWDOWN`]: by the
/// processor time of a small piece of work against the least that it ever took in this process, and by how many
/// threads want a processor now. 1 where neither can be told, and where it is to be ignored.
pub fn slowdown() -> f64 {
    if IGNORED.get() {
        return 1.0;
    }
    static FASTEST: AtomicU64 = AtomicU64::new(u64::MAX);
    let took = u64::try_from(piece_of_work().as_nanos()).unwrap_or(u64::MAX).max(1);
    let fastest = FASTEST.fetch_min(took, Ordering::Relaxed).min(took);
    let contention = std::fs::read_to_string("/proc/stat").ok().and_then(|text| contention(&text));
    slowdown_of(took as f64 / fastest as f64, contention)
}

fn slowdown_of(slower: f64, contention: Option<f64>) -> f64 {
    (slower.max(1.0) * contention.unwrap_or(1.0).max(1.0)).min(LARGEST_SLOWDOWN)
}

/// Threads that want a processor for each processor, by the text of `/proc/stat`.
fn contention(stat: &str) -> Option<f64> {
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let processors = stat.lines().filter(is_processor).count();
    let running: f64 =
        stat.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()?;
    (processors > 0).then(|| running / processors as f64)
}

/// The processor time that a small piece of work takes now: what most programs here do for most of their time, which is
/// to read text, find memory for it and give it back.
pub fn piece_of_work() -> Duration {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        let object = |at: usize| {
            let name = format!("node-{at}");
            json!({"metadata": {"name": name, "labels": {"a": "b", "c": "d"}}, "spec": {"ids": [1, 2, 3, at]}})
        };
        Value::Array((0..OBJECTS).map(object).collect()).to_string()
    });
    let text = TEXT.as_str();
    let before = processor_time();
    black_box(serde_json::from_str::<Value>(black_box(text)).ok());
    processor_time().saturating_sub(before)
}

/// Processor time of this thread so far.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "cpu  10 0 10 80\ncpu0 5 0 5 40\ncpu1 5 0 5 40\nctxt 1\nprocs_running 6\nprocs_blocked 0\n";

    #[test]
    fn three_threads_for_each_processor_make_things_three_times_slower() {
        assert_eq!(contention(STAT), Some(3.0));
        assert_eq!(contention("no stat"), None);
        assert_eq!(slowdown_of(1.0, Some(3.0)), 3.0);
    }

    #[test]
    fn a_thread_that_ignores_the_processors_measures_none() {
        let ignoring = std::thread::spawn(|| {
            ignore_on_this_thread();
            let before = processor_time();
            let slowdowns: Vec<f64> = (0..1000).map(|_| slowdown()).collect();
            (slowdowns, processor_time() - before)
        });
        let (slowdowns, took) = ignoring.join().unwrap();
        assert_eq!(slowdowns, [1.0; 1000]);
        assert!(took < piece_of_work() * 100, "{took:?}");
    }

    #[test]
    fn idle_processors_at_their_fastest_do_not_shorten_a_timeout() {
        assert_eq!(slowdown_of(1.0, Some(0.5)), 1.0);
        assert_eq!(slowdown_of(2.0, None), 2.0);
        assert_eq!(slowdown_of(4.0, Some(9.0)), LARGEST_SLOWDOWN);
    }
}
