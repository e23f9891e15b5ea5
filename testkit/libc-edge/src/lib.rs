//! libc's `getrandom` and `clock_gettime`, replaced on threads that simulate and passed through on all others.
//!
//! Some of what dependencies draw cannot be handed to them: the keys of hash maps, the time in an event's name, the jitter of a
//! back-off. A binary that links this crate gets them from here. On a thread that has called [`enter`] random numbers come
//! from a seed and the clocks show what [`Simulated::set_clocks`] said; everywhere else the kernel is asked as before.
//!
//! ```
//! use std::time::{Duration, SystemTime, UNIX_EPOCH};
//!
//! let at_noon = || {
//!     let simulated = libc_edge::enter(7);
//!     simulated.set_clocks(Duration::from_secs(12 * 3600), Duration::ZERO);
//!     let map: std::collections::HashMap<u8, u8> = (0..50).map(|key| (key, key)).collect();
//!     (SystemTime::now(), map.into_keys().collect::<Vec<_>>())
//! };
//! let once = std::thread::spawn(at_noon).join().unwrap();
//! assert_eq!(once.0, UNIX_EPOCH + Duration::from_secs(12 * 3600));
//! assert_eq!(once, std::thread::spawn(at_noon).join().unwrap());
//! assert_ne!(once.0, SystemTime::now());
//! ```

mod clock;
mod random;

use std::cell::Cell;
use std::marker::PhantomData;
use std::time::Duration;

thread_local! {
    // Nothing here may allocate or be dropped: libc is called at any time in a thread's life.
    static STATE: Cell<Option<State>> = const { Cell::new(None) };
}

/// What a thread that simulates gets from libc.
#[derive(Clone, Copy)]
struct State {
    /// Of the generator of random numbers.
    random: u64,
    /// Time since 1970.
    wall: Duration,
    /// Time since the simulation began.
    monotonic: Duration,
}

/// The calling thread simulates until this is dropped. It is the thread's own.
#[derive(Debug)]
pub struct Simulated {
    _of_this_thread: PhantomData<*const ()>,
}

/// From now on the calling thread simulates, with random numbers from `seed`, in 1970.
///
/// A thread keeps the keys of its hash maps once it has drawn them: runs are the same only on threads that have done nothing
/// else before.
pub fn enter(seed: u64) -> Simulated {
    STATE.set(Some(State { random: seed, wall: Duration::ZERO, monotonic: Duration::ZERO }));
    Simulated { _of_this_thread: PhantomData }
}

impl Simulated {
    /// What the clocks show from now on: `wall` since 1970, `monotonic` since the simulation began.
    pub fn set_clocks(&self, wall: Duration, monotonic: Duration) {
        if let Some(state) = STATE.get() {
            STATE.set(Some(State { wall, monotonic, ..state }));
        }
    }
}

impl Drop for Simulated {
    fn drop(&mut self) {
        STATE.set(None);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::{BuildHasher as _, RandomState};
    use std::thread;
    use std::time::{Instant, SystemTime, UNIX_EPOCH};

    use super::*;

    fn on_a_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
        thread::spawn(work).join().unwrap()
    }

    #[test]
    fn the_same_seed_gives_the_same_keys_and_another_seed_others() {
        let draw = |seed| {
            on_a_thread(move || {
                let _simulated = enter(seed);
                [RandomState::new().hash_one(1), RandomState::new().hash_one(1)]
            })
        };
        assert_eq!(draw(1), draw(1));
        let all: HashSet<u64> = [draw(1), draw(2)].concat().into_iter().collect();
        assert_eq!(all.len(), 4);
    }

    #[test]
    fn both_clocks_show_what_they_were_told_until_the_end() {
        on_a_thread(|| {
            let simulated = enter(1);
            let began = Instant::now();
            simulated.set_clocks(Duration::new(5, 7), Duration::from_millis(1500));
            assert_eq!(SystemTime::now(), UNIX_EPOCH + Duration::new(5, 7));
            assert_eq!(began.elapsed(), Duration::from_millis(1500));
            drop(simulated);
            assert!(SystemTime::now() > UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        });
    }

    #[test]
    fn other_threads_see_the_kernel() {
        let _simulated = enter(1);
        let there = on_a_thread(|| (SystemTime::now(), RandomState::new().hash_one(1)));
        assert!(there.0 > UNIX_EPOCH + Duration::from_secs(1_700_000_000));
        assert_ne!(there.1, on_a_thread(|| RandomState::new().hash_one(1)));
    }
}
