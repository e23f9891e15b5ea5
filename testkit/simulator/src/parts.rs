//! What is counted and drawn of the parts: a part is what a process does, whichever process does it. Counted by processes and
//! logs, told by the simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a part has done so far, over all its processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Polls of its tasks.
    pub polls: u64,
    /// Lines in its log, of level info and above.
    pub log_lines: u64,
    /// Processes started.
    pub starts: u64,
    /// Processes killed.
    pub kills: u64,
    /// How many of them before a poll that [`Options::kills`](crate::Options::kills) names.
    pub kills_by_poll: u64,
}

/// All parts, by their places: a part's place is its number in the order of their first starts, from 0.
pub(crate) struct Parts(Mutex<State>);

#[derive(Default)]
struct State {
    places: BTreeMap<String, usize>,
    all: Vec<Part>,
    kills: Vec<(String, u64)>,
}

struct Part {
    name: Arc<str>,
    activity: Activity,
    /// The polls before which it is killed.
    kills: BTreeSet<u64>,
}

impl Parts {
    /// No parts. `kills` are those to come, each by the part's name and its poll's number.
    pub(crate) fn new(kills: Vec<(String, u64)>) -> Self {
        Self(Mutex::new(State { kills, ..State::default() }))
    }

    /// A process of the part starts: the part's place, and how many were started before.
    pub(crate) fn starts(&self, name: &str) -> (usize, u64) {
        let mut state = self.state();
        let place = state.place(name);
        let activity = &mut state.all[place].activity;
        activity.starts += 1;
        (place, activity.starts - 1)
    }

    /// Counts a poll; its number.
    pub(crate) fn count_poll(&self, place: usize) -> u64 {
        let activity = &mut self.state().all[place].activity;
        activity.polls += 1;
        activity.polls
    }

    /// How often the part was polled.
    pub(crate) fn polls(&self, place: usize) -> u64 {
        self.state().all[place].activity.polls
    }

    /// Counts a process that is killed, and whether it is for the number of its poll.
    pub(crate) fn count_kill(&self, place: usize, by_poll: bool) {
        let activity = &mut self.state().all[place].activity;
        activity.kills += 1;
        activity.kills_by_poll += u64::from(by_poll);
    }

    pub(crate) fn count_log_line(&self, place: usize) {
        self.state().all[place].activity.log_lines += 1;
    }

    /// The next poll before which the part is killed.
    pub(crate) fn next_kill(&self, place: usize) -> u64 {
        let state = self.state();
        let Part { activity, kills, .. } = &state.all[place];
        kills.range(activity.polls + 1..).next().copied().unwrap_or(u64::MAX)
    }

    pub(crate) fn name(&self, place: usize) -> Arc<str> {
        Arc::clone(&self.state().all[place].name)
    }

    /// What each part has done, by name.
    pub(crate) fn activity(&self) -> BTreeMap<String, Activity> {
        self.state().all.iter().map(|part| (part.name.to_string(), part.activity)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn place(&mut self, name: &str) -> usize {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let place = self.all.len();
        let kills = self.kills.iter().filter(|(part, _)| part == name).map(|(_, poll)| *poll).collect();
        self.all.push(Part { name: name.into(), activity: Activity::default(), kills });
        self.places.insert(name.to_owned(), place);
        place
    }
}
