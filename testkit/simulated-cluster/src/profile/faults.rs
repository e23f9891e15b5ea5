//! Draws what goes wrong in an hour.

use simulator::random::Rng;

use super::settings::rates;
use super::{Generated, Profile};
use crate::plan::{Event, Place, What};
use crate::suite::RunsOn;

/// Longest fault, in seconds.
const LONGEST: u32 = 600;

/// One kind in so many does not exist for a seed: what is always there hides what others do.
const ABSENT: u8 = 4;
/// One fault in so many is for good: of a device, or of the last node of three or more, until the machine is replaced; of a second replica.
pub(super) const FOR_GOOD: u8 = 8;

/// What may go wrong with `chaos`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Kill,
    Stop,
    Freeze,
    FreezeNode,
    Away,
    Second,
    Skew,
    PowerLoss,
    ReplaceNode,
    Cut,
    ApiDown,
    Compact,
    ApiFaults,
    ClusterApiFaults,
    WatchLag,
    CacheBehind,
    Device,
    ForeignList,
    CheckpointLost,
    CheckpointOlder,
    CheckpointUnwritable,
    PreferencesIgnored,
    PluginFilesRemoved,
    SocketsReset,
    Edit,
    EditPod,
    Machine,
    CheckpointUnreadable,
}

impl Kind {
    /// Each kind, with how often it comes beside the others.
    const ALL: [(Kind, u32); 28] = [
        (Kind::Kill, 4),
        (Kind::Stop, 2),
        (Kind::Freeze, 2),
        (Kind::FreezeNode, 1),
        (Kind::Away, 1),
        (Kind::Second, 1),
        (Kind::Skew, 1),
        (Kind::PowerLoss, 1),
        (Kind::ReplaceNode, 1),
        (Kind::Cut, 3),
        (Kind::ApiDown, 1),
        (Kind::Compact, 1),
        (Kind::ApiFaults, 2),
        (Kind::ClusterApiFaults, 2),
        (Kind::WatchLag, 2),
        (Kind::CacheBehind, 1),
        (Kind::Device, 3),
        (Kind::ForeignList, 1),
        (Kind::CheckpointLost, 1),
        (Kind::CheckpointOlder, 1),
        (Kind::CheckpointUnwritable, 1),
        (Kind::PreferencesIgnored, 1),
        (Kind::PluginFilesRemoved, 1),
        (Kind::SocketsReset, 1),
        (Kind::Edit, 2),
        (Kind::EditPod, 2),
        (Kind::Machine, 2),
        (Kind::CheckpointUnreadable, 1),
    ];

    /// Those that exist for a seed.
    pub(super) fn of_seed(draws: &mut Rng) -> Vec<(Kind, u32)> {
        Kind::ALL.into_iter().filter(|_| draws.u8(..ABSENT) > 0).collect()
    }

    /// How often all come, which each is compared with.
    fn often() -> u32 {
        Kind::ALL.iter().map(|(_, often)| often).sum()
    }
}

impl Generated {
    /// Faults that begin within `busy` milliseconds and are over by then.
    pub(super) fn faults_of_hour(&mut self, busy: u64) -> Vec<Event> {
        match self.profile {
            Profile::Calm => Vec::new(),
            Profile::Churn => {
                let mut draws = self.draws("kills");
                let count = 2 + self.nodes.len() / 10;
                (0..count).map(|_| Event { at: draws.u64(..busy), what: self.kill(&mut draws) }).collect()
            }
            Profile::Chaos => {
                let mut events: Vec<Event> = Vec::new();
                for (kind, often) in &self.kinds {
                    events.extend(self.of_kind(*kind, *often, busy));
                }
                events.extend(self.kill_storm(busy));
                events.extend(self.overload(busy));
                events.extend(self.made_anew_unheard(busy));
                events.extend(self.last_binds_fail(busy));
                events.extend(self.deposed_amid_binds(busy));
                events
            }
        }
    }

    /// Those of one kind. Each kind draws for itself: without one, the others are the same.
    fn of_kind(&self, kind: Kind, often: u32, busy: u64) -> Vec<Event> {
        let mut draws = self.draws(&format!("{kind:?}"));
        // A quarter of the kinds is absent: in an hour of three nodes there are some ten, and more with more nodes.
        let expected = f64::from(often) * (11.0 + self.nodes.len() as f64 * 0.7) / f64::from(Kind::often());
        let count = (2.0 * expected * draws.f64() + draws.f64()) as u32;
        let mut events = Vec::new();
        for _ in 0..count {
            let at = draws.u64(..busy);
            if let Some(seconds) = self.seconds(&mut draws, left(at, busy)) {
                events.extend(self.fault(&mut draws, kind, at, seconds));
            }
        }
        events.retain(|event| event.at < busy);
        events
    }

    fn fault(&self, draws: &mut Rng, kind: Kind, at: u64, seconds: u32) -> Vec<Event> {
        let what = match kind {
            Kind::Kill => Some(self.kill(draws)),
            Kind::Stop => self.program(draws).map(|(part, on)| What::Stop { part, on }),
            Kind::Freeze => {
                let (part, on) = self.part(draws);
                Some(What::Freeze { part, on, seconds: seconds.min(120) })
            }
            Kind::Away => {
                let (part, on) = self.part(draws);
                let for_good = on == Place::SecondControl && draws.u8(..FOR_GOOD) == 0;
                Some(What::Away { part, on, seconds: (!for_good).then_some(seconds) })
            }
            Kind::Second => return self.second(draws, at, seconds.min(180)),
            Kind::Skew => {
                let (part, on) = self.part(draws);
                Some(What::Skew { part, on, milliseconds: draws.i64(-600_000..=600_000) })
            }
            Kind::PowerLoss => return self.power_loss(draws, at, seconds),
            Kind::ReplaceNode => Some(What::ReplaceNode { node: self.node(draws), seconds }),
            Kind::Cut => {
                let (one, other) = self.link(draws);
                let (from, to) = if draws.bool() { (one, other) } else { (other, one) };
                Some(What::Cut { from, to, both: draws.u8(..3) > 0, reset: draws.bool(), seconds })
            }
            Kind::ApiDown => Some(What::ApiDown { seconds: seconds.min(60) }),
            Kind::Compact => Some(What::Compact),
            Kind::ApiFaults => Some(What::ApiFaults { rates: rates(draws, 0.2), seconds }),
            Kind::ClusterApiFaults => Some(What::ClusterApiFaults { rates: rates(draws, 0.2), seconds }),
            Kind::WatchLag => {
                let on = self.link(draws).0;
                Some(What::WatchLag { on, milliseconds: draws.u32(100..=300_000), seconds })
            }
            Kind::CacheBehind => return self.cache_behind(draws, at, seconds),
            Kind::Device => {
                let node = self.node(draws);
                self.device(draws, node, seconds)
            }
            Kind::FreezeNode => {
                let on = Place::Node(self.node(draws));
                Some(What::Freeze { part: "node".to_owned(), on, seconds: seconds.min(120) })
            }
            Kind::ForeignList => return self.monitor(draws, at, seconds),
            Kind::CheckpointLost => Some(What::CheckpointLost { node: self.node(draws) }),
            Kind::CheckpointOlder => Some(What::CheckpointOlder { node: self.node(draws), seconds }),
            Kind::CheckpointUnwritable => {
                Some(What::CheckpointUnwritable { node: self.node(draws), seconds: seconds.min(120) })
            }
            Kind::CheckpointUnreadable => {
                let (node, hangs) = (self.node(draws), draws.bool());
                Some(What::CheckpointUnreadable { node, hangs, seconds: seconds.min(120) })
            }
            Kind::PreferencesIgnored => {
                Some(What::PreferencesIgnored { node: self.node(draws), seconds: seconds.min(120) })
            }
            Kind::PluginFilesRemoved => Some(What::PluginFilesRemoved { node: self.node(draws) }),
            Kind::SocketsReset => Some(What::SocketsReset { node: self.node(draws) }),
            Kind::EditPod => return self.edit_pods(draws, at),
            Kind::Machine => return self.machine(draws, at, seconds),
            Kind::Edit => {
                let (edits, node) = (self.suite.edits(), self.node(draws));
                let what = draws.choice(&edits).map(|what| (*what).to_owned());
                what.map(|what| What::Edit { node, what, seconds: seconds.min(120) })
            }
        };
        what.map(|what| Event { at, what }).into_iter().collect()
    }

    /// A second program beside the first, which on a node may be frozen, as a plugin is whose node swaps.
    fn second(&self, draws: &mut Rng, at: u64, seconds: u32) -> Vec<Event> {
        let (Some((part, on)), is_frozen) = (self.program(draws), draws.u8(..3) == 0) else {
            return Vec::new();
        };
        let mut events = Vec::new();
        if is_frozen && matches!(on, Place::Node(_)) {
            let what = What::Freeze { part: part.clone(), on, seconds: seconds.min(120) };
            events.push(Event { at, what });
        }
        if matches!(on, Place::Control | Place::SecondControl) {
            events.extend(self.second_is_apart(draws, at, seconds));
        }
        events.push(Event { at: at + 1, what: What::Second { part, on, seconds } });
        events
    }

    /// Half of the second processes of the control plane see another cluster than the first, or less of it.
    fn second_is_apart(&self, draws: &mut Rng, at: u64, seconds: u32) -> Option<Event> {
        let (on, to) = (Place::SecondControl, Place::ApiServer);
        let (both, reset) = (draws.u8(..3) > 0, draws.bool());
        let later = draws.u32(..seconds);
        let seconds = seconds - later;
        let what = match draws.u8(..6) {
            0 => What::Cut { from: on, to, both, reset, seconds },
            1 => What::Cut { from: Place::Scheduler, to: on, both, reset, seconds },
            2 => What::WatchLag { on, milliseconds: draws.u32(100..=60_000), seconds },
            _ => return None,
        };
        Some(Event { at: at + 1 + u64::from(later) * 1000, what })
    }

    /// How long a fault lasts that is over in time; none where there is no time left.
    pub(super) fn seconds(&self, draws: &mut Rng, left: u32) -> Option<u32> {
        let longest = left.min(if draws.u8(..4) == 0 { LONGEST } else { 60 });
        (longest > 0).then(|| draws.u32(1..=longest))
    }

    pub(super) fn device(&self, draws: &mut Rng, node: usize, seconds: u32) -> Option<What> {
        let plan = self.nodes.get(node)?;
        let faults = self.suite.device_faults(plan);
        let fault = (*draws.choice(&faults)?).to_owned();
        let device = draws.u32(..self.suite.devices(plan).max(1));
        let seconds = (draws.u8(..FOR_GOOD) > 0).then_some(seconds);
        Some(What::Device { node, device, fault, seconds })
    }

    /// The hosts of the suite's programs of the control plane.
    pub(super) fn controls(&self) -> Vec<Place> {
        let has_replicas = |program| self.suite.has_replicas(program, &self.settings);
        match self.suite.programs().iter().any(has_replicas) {
            true => vec![Place::Control, Place::SecondControl],
            false => vec![Place::Control],
        }
    }

    /// The ends of a link between parts that talk.
    fn link(&self, draws: &mut Rng) -> (Place, Place) {
        let controls = self.controls();
        let control = draws.choice(&controls).copied().unwrap_or(Place::Control);
        match draws.u8(..6) {
            0 => (Place::Scheduler, control),
            1 => (Place::Scheduler, Place::ApiServer),
            2 | 3 => (control, Place::ApiServer),
            _ => (Place::Node(self.node(draws)), Place::ApiServer),
        }
    }

    pub(super) fn kill(&self, draws: &mut Rng) -> What {
        let (part, on) = self.part(draws);
        // Half of the time between two steps, which a time would hardly meet: all of one answer is done within a millisecond.
        let after_polls = match draws.u8(..4) {
            0 => Some(draws.u64(1..=30)),
            1 => Some(draws.u64(1..=1000)),
            _ => None,
        };
        What::Kill { part, on, after_polls }
    }

    pub(super) fn node(&self, draws: &mut Rng) -> usize {
        draws.usize(..self.nodes.len())
    }

    /// A program of the suite, with where it is.
    fn program(&self, draws: &mut Rng) -> Option<(String, Place)> {
        let programs = self.suite.programs();
        let program = draws.choice(&programs)?.clone();
        let on = match program.runs_on {
            RunsOn::Control if self.suite.has_replicas(&program, &self.settings) && draws.bool() => {
                Place::SecondControl
            }
            RunsOn::Control => Place::Control,
            RunsOn::EveryNode => Place::Node(self.node(draws)),
        };
        Some((program.name.to_owned(), on))
    }

    /// Any part, with where it is: most often a program of the suite.
    fn part(&self, draws: &mut Rng) -> (String, Place) {
        let program = self.program(draws);
        match (draws.u8(..10), program) {
            (0..6, Some(program)) => program,
            (6, _) => ("scheduler".to_owned(), Place::Scheduler),
            (7, _) => ("controllers".to_owned(), Place::Scheduler),
            _ => ("kubelet".to_owned(), Place::Node(self.node(draws))),
        }
    }
}

/// Seconds between a time and the end of what is busy.
pub(super) fn left(at: u64, busy: u64) -> u32 {
    u32::try_from((busy - at) / 1000).unwrap_or(u32::MAX)
}
