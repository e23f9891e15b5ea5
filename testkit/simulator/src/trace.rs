//! What happens, in words: a hash by which runs are compared, the last events for who looks at a failure, and all of them for
//! who asks.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::random::{EMPTY, extend};
use crate::time::Clock;

/// How many of the last events are kept.
pub const KEPT: usize = 100;

/// Where all events from some time on go.
pub struct Sink {
    /// Gets a line for each event.
    pub to: Box<dyn Write + Send>,
    /// Events before this time are left out.
    pub from: Duration,
}

/// What has happened so far.
pub(crate) struct Trace {
    clock: Clock,
    state: Mutex<State>,
}

struct State {
    hash: u64,
    events: u64,
    last: VecDeque<String>,
    /// The line of a routine event.
    line: String,
    sink: Option<Sink>,
    /// Why the sink failed, if it has.
    sink_failed: Option<String>,
}

impl Trace {
    pub(crate) fn new(clock: Clock, sink: Option<Sink>) -> Self {
        let state = State {
            hash: EMPTY,
            events: 0,
            last: VecDeque::with_capacity(KEPT),
            line: String::new(),
            sink,
            sink_failed: None,
        };
        Self { clock, state: Mutex::new(state) }
    }

    /// Adds an event: by whom, what. It is part of the hash.
    pub(crate) fn event(&self, part: &str, what: fmt::Arguments<'_>) {
        let mut state = self.state();
        let line = if state.last.len() == KEPT { state.last.pop_front() } else { None };
        let line = state.hashed(line.unwrap_or_default(), self.clock.elapsed(), part, what);
        state.last.push_back(line);
    }

    /// Adds an event that is not worth keeping among the last ones. It is part of the hash.
    pub(crate) fn routine(&self, part: &str, what: fmt::Arguments<'_>) {
        let mut state = self.state();
        let line = std::mem::take(&mut state.line);
        state.line = state.hashed(line, self.clock.elapsed(), part, what);
    }

    /// Adds what explains events and is not one, such as a line of a log: it is not part of the hash.
    pub(crate) fn remark(&self, part: &str, what: fmt::Arguments<'_>) {
        let (mut state, at) = (self.state(), self.clock.elapsed());
        if state.wants(at) {
            let line = format!("{} {part}| {what}", Time(at));
            state.print(at, &line);
        }
    }

    /// Whether anybody reads remarks.
    pub(crate) fn wants_remarks(&self) -> bool {
        self.state().wants(self.clock.elapsed())
    }

    /// Flushes the sink. Why it failed, if it has.
    pub(crate) fn finish(&self) -> Option<String> {
        let mut state = self.state();
        if let Some(mut sink) = state.sink.take()
            && let Err(error) = sink.to.flush()
        {
            state.sink_failed = Some(error.to_string());
        }
        state.sink_failed.take()
    }

    /// The hash of all events, in order.
    pub(crate) fn hash(&self) -> u64 {
        self.state().hash
    }

    /// Number of events.
    pub(crate) fn events(&self) -> u64 {
        self.state().events
    }

    /// The last events, the latest last.
    pub(crate) fn last(&self) -> Vec<String> {
        self.state().last.iter().cloned().collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// The line of an event, made part of the hash and printed.
    fn hashed(&mut self, mut line: String, at: Duration, part: &str, what: fmt::Arguments<'_>) -> String {
        line.clear();
        // Writing to a String cannot fail.
        let _ = write!(line, "{} {part}: {what}", Time(at));
        self.hash = extend(self.hash, line.as_bytes());
        self.events += 1;
        self.print(at, &line);
        line
    }

    fn wants(&self, at: Duration) -> bool {
        self.sink.as_ref().is_some_and(|sink| at >= sink.from)
    }

    fn print(&mut self, at: Duration, line: &str) {
        let Some(sink) = self.sink.as_mut().filter(|sink| at >= sink.from) else { return };
        if let Err(error) = writeln!(sink.to, "{line}") {
            self.sink_failed = Some(error.to_string());
            self.sink = None;
        }
    }
}

/// A time since the beginning, as `3d 04:05:06.789`.
pub struct Time(pub Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        let (seconds, milliseconds) = (seconds % 60, self.0.subsec_millis());
        write!(f, "{days}d {hours:02}:{minutes:02}:{seconds:02}.{milliseconds:03}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace() -> (Trace, Clock) {
        let clock = Clock::default();
        (Trace::new(clock.clone(), None), clock)
    }

    #[test]
    fn the_hash_is_of_time_part_and_words_and_of_no_remark() {
        let hash = |at, part: &str, what: &str, remark: &str| {
            let (trace, clock) = trace();
            clock.set_elapsed(Duration::from_millis(at));
            trace.event(part, format_args!("{what}"));
            trace.remark("log", format_args!("{remark}"));
            trace.hash()
        };
        let base = hash(1, "a", "b", "");
        assert_eq!(base, hash(1, "a", "b", "remark"));
        assert!(
            [hash(2, "a", "b", ""), hash(1, "c", "b", ""), hash(1, "a", "c", "")].iter().all(|h| *h != base)
        );
    }

    #[test]
    fn the_last_events_are_kept() {
        let (trace, clock) = trace();
        clock.set_elapsed(Duration::from_secs(90_061));
        for number in 0..KEPT + 5 {
            trace.event("part", format_args!("{number}"));
        }
        let last = trace.last();
        assert_eq!((last.len(), trace.events()), (KEPT, KEPT as u64 + 5));
        assert_eq!(last[0], "1d 01:01:01.000 part: 5");
    }
}
