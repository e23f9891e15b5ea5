//! The load profiles: how busy a core is and how full its memory, second by second. Pure and the same every time.

use std::fmt;
use std::str::FromStr;

/// How a made-up workload uses every core of a machine. The numbers are this project's own, chosen to be told apart in a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// Nobody uses the devices.
    #[default]
    Idle,
    /// After three seconds of loading, 80 to 98 percent busy with 85 percent of the memory in use.
    Training,
    /// 50 to 68 percent busy, with memory that grows by half a percent a second until it is full; from then on every execution
    /// fails for want of memory.
    Leak,
    /// Idle but for the first five of every thirty seconds, which are as [`Profile::Training`].
    Spikes,
}

/// Seconds in which a model is loaded before it runs.
pub(crate) const WARM_UP: u64 = 3;
/// Seconds from one spike to the next.
const SPIKE_PERIOD: u64 = 30;
/// Seconds that a spike lasts.
const SPIKE: u64 = 5;
/// What the busy share varies by, in percentage points, over ten seconds.
const WAVE: [u64; 10] = [0, 4, 9, 13, 16, 18, 14, 11, 7, 2];
/// Thousandths of a core's memory that a training workload uses.
const TRAINED: u64 = 850;
/// Thousandths with which a leak begins, and by which it grows each second.
const LEAK: (u64, u64) = (200, 5);

/// A name that is no profile's.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("load profile {name} is not known: give one of idle, training, leak, spikes")]
pub struct LoadError {
    /// The name as asked for.
    pub name: String,
}

impl Profile {
    /// Every profile.
    pub const ALL: [Profile; 4] = [Profile::Idle, Profile::Training, Profile::Leak, Profile::Spikes];

    /// The profile's name, as on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Idle => "idle",
            Profile::Training => "training",
            Profile::Leak => "leak",
            Profile::Spikes => "spikes",
        }
    }

    /// How busy the core is in this second since the start, in percent, 0 to 100.
    pub(crate) fn busy(self, second: u64, device: u8, core: u8) -> u64 {
        // Cores of one machine do the same, but not at the same moment.
        let phase = second + u64::from(device) * 7 + u64::from(core) * 3;
        let wave = WAVE[(phase % 10) as usize];
        match self {
            Profile::Idle => 0,
            Profile::Training if second < WARM_UP => 0,
            Profile::Training => 80 + wave,
            Profile::Leak if second < WARM_UP || self.is_full(second) => 0,
            Profile::Leak => 50 + wave,
            Profile::Spikes if second % SPIKE_PERIOD < SPIKE => 80 + wave,
            Profile::Spikes => 0,
        }
    }

    /// Thousandths of the core's memory that are in use in this second.
    pub(crate) fn fill(self, second: u64) -> u64 {
        match self {
            Profile::Idle => 0,
            Profile::Training => TRAINED * second.min(WARM_UP) / WARM_UP,
            Profile::Leak => (LEAK.0 + LEAK.1 * second).min(1000),
            Profile::Spikes if second % SPIKE_PERIOD < SPIKE => TRAINED,
            Profile::Spikes => 0,
        }
    }

    /// The most that was in use up to this second, in thousandths.
    pub(crate) fn highest_fill(self, second: u64) -> u64 {
        match self {
            // Each of these only grows.
            Profile::Idle | Profile::Training | Profile::Leak => self.fill(second),
            Profile::Spikes => TRAINED,
        }
    }

    /// Whether executions fail for want of memory.
    pub(crate) fn is_full(self, second: u64) -> bool {
        self == Profile::Leak && self.fill(second) >= 1000
    }

    /// Whether a model is loaded in this second.
    pub(crate) fn has_model(self, second: u64) -> bool {
        self.fill(second) > 0
    }
}

impl FromStr for Profile {
    type Err = LoadError;

    fn from_str(name: &str) -> Result<Profile, LoadError> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == name);
        found.ok_or_else(|| LoadError { name: name.to_owned() })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
