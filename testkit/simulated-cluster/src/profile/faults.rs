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
/// One device in so many that breaks does so for good: until its machine is replaced.
const FOR_GOOD: u8 = 8;

/// What may go wrong with `chaos`.
#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Kill,
    Freeze,
    FreezeNode,
    Second,
    Skew,
    PowerLoss,
    ReplaceNode,
    Cut,
    ApiDown,
    Compact,
    ApiFaults,
    WatchLag,
    Device,
    ForeignList,
    CheckpointLost,
    Edit,
}

impl Kind {
    /// Each kind, with how often it comes beside the others.
    const ALL: [(Kind, usize); 16] = [
        (Kind::Kill, 4),
        (Kind::Freeze, 2),
        (Kind::FreezeNode, 1),
        (Kind::Second, 1),
        (Kind::Skew, 1),
        (Kind::PowerLoss, 1),
        (Kind::ReplaceNode, 1),
        (Kind::Cut, 3),
        (Kind::ApiDown, 1),
        (Kind::Compact, 1),
        (Kind::ApiFaults, 2),
        (Kind::WatchLag, 2),
        (Kind::Device, 3),
        (Kind::ForeignList, 1),
        (Kind::CheckpointLost, 1),
        (Kind::Edit, 2),
    ];

    /// Those that exist for a seed, each as often as it comes.
    pub(super) fn of_seed(draws: &mut Rng) -> Vec<Kind> {
        let exists = |_: &(Kind, usize)| draws.u8(..ABSENT) > 0;
        let all = Kind::ALL.into_iter().filter(exists);
        all.flat_map(|(kind, often)| std::iter::repeat_n(kind, often)).collect()
    }
}

impl Generated {
    /// Faults that begin within `busy` milliseconds and are over by then.
    pub(super) fn faults_of_hour(&mut self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("faults");
        let nodes = self.nodes.len() as u64;
        let count = match self.profile {
            Profile::Calm => 0,
            Profile::Churn => 2 + nodes / 10,
            Profile::Chaos => draws.u64(4..=12) + nodes / 2,
        };
        let mut events: Vec<Event> = (0..count)
            .filter_map(|_| {
                let at = draws.u64(..busy);
                let left = u32::try_from((busy - at) / 1000).unwrap_or(u32::MAX);
                let what = match self.profile {
                    Profile::Calm | Profile::Churn => Some(self.kill(&mut draws)),
                    Profile::Chaos => self.fault(&mut draws, left),
                };
                Some(Event { at, what: what? })
            })
            .collect();
        if self.profile == Profile::Chaos && draws.u8(..3) == 0 {
            events.extend(self.kill_storm(&mut draws, busy));
        }
        if self.profile == Profile::Chaos && draws.bool() {
            events.extend(self.overload(&mut draws, busy));
        }
        events
    }

    /// Every few seconds a part is killed, for a minute or two.
    fn kill_storm(&self, draws: &mut Rng, busy: u64) -> Vec<Event> {
        let mut at = draws.u64(..busy);
        let ends = at + draws.u64(60_000..180_000);
        let mut events = Vec::new();
        while at < ends.min(busy) {
            events.push(Event { at, what: self.kill(draws) });
            at += draws.u64(500..12_000);
        }
        events
    }

    /// The API server has more to do than it can: answers are lost and watches lag, both at one time.
    fn overload(&self, draws: &mut Rng, busy: u64) -> Vec<Event> {
        let at = draws.u64(..busy);
        let left = u32::try_from((busy - at) / 1000).unwrap_or(u32::MAX);
        let Some(seconds) = self.seconds(draws, left) else { return Vec::new() };
        let places = [Place::Control, Place::Node(self.node(draws))];
        let lag = places.map(|on| What::WatchLag { on, milliseconds: draws.u32(1000..=60_000), seconds });
        let all = [What::ApiFaults { rates: rates(draws, 0.5), seconds }].into_iter().chain(lag);
        all.map(|what| Event { at, what }).collect()
    }

    fn fault(&self, draws: &mut Rng, left: u32) -> Option<What> {
        let seconds = self.seconds(draws, left)?;
        let kind = *draws.choice(&self.kinds)?;
        Some(match kind {
            Kind::Kill => self.kill(draws),
            Kind::Freeze => {
                let (part, on) = self.part(draws);
                What::Freeze { part, on, seconds: seconds.min(120) }
            }
            Kind::Second => {
                let (part, on) = self.program(draws)?;
                What::Second { part, on, seconds: seconds.min(180) }
            }
            Kind::Skew => {
                let (part, on) = self.part(draws);
                What::Skew { part, on, milliseconds: draws.i64(-600_000..=600_000) }
            }
            Kind::PowerLoss => What::PowerLoss { node: self.node(draws), seconds },
            Kind::ReplaceNode => What::ReplaceNode { node: self.node(draws), seconds },
            Kind::Cut => {
                let (from, to) = self.link(draws);
                What::Cut { from, to, both: draws.u8(..3) > 0, reset: draws.bool(), seconds }
            }
            Kind::ApiDown => What::ApiDown { seconds: seconds.min(60) },
            Kind::Compact => What::Compact,
            Kind::ApiFaults => What::ApiFaults { rates: rates(draws, 0.2), seconds },
            Kind::WatchLag => {
                let on = self.link(draws).0;
                What::WatchLag { on, milliseconds: draws.u32(100..=300_000), seconds }
            }
            Kind::Device => self.device(draws, seconds)?,
            Kind::FreezeNode => {
                let on = Place::Node(self.node(draws));
                What::Freeze { part: "node".to_owned(), on, seconds: seconds.min(120) }
            }
            Kind::ForeignList => What::ForeignList { node: self.node(draws) },
            Kind::CheckpointLost => What::CheckpointLost { node: self.node(draws) },
            Kind::Edit => {
                let edits = self.suite.edits();
                let what = (*draws.choice(&edits)?).to_owned();
                What::Edit { node: self.node(draws), what, seconds: seconds.min(120) }
            }
        })
    }

    /// How long a fault lasts that is over in time; none where there is no time left.
    fn seconds(&self, draws: &mut Rng, left: u32) -> Option<u32> {
        let longest = left.min(if draws.u8(..4) == 0 { LONGEST } else { 60 });
        (longest > 0).then(|| draws.u32(1..=longest))
    }

    fn device(&self, draws: &mut Rng, seconds: u32) -> Option<What> {
        let node = self.node(draws);
        let plan = self.nodes.get(node)?;
        let faults = self.suite.device_faults(plan);
        let fault = (*draws.choice(&faults)?).to_owned();
        let device = draws.u32(..self.suite.devices(plan).max(1));
        let seconds = (draws.u8(..FOR_GOOD) > 0).then_some(seconds);
        Some(What::Device { node, device, fault, seconds })
    }

    /// The ends of a link between parts that talk.
    fn link(&self, draws: &mut Rng) -> (Place, Place) {
        match draws.u8(..6) {
            0 => (Place::Scheduler, Place::Control),
            1 => (Place::Scheduler, Place::ApiServer),
            2 | 3 => (Place::Control, Place::ApiServer),
            _ => (Place::Node(self.node(draws)), Place::ApiServer),
        }
    }

    fn kill(&self, draws: &mut Rng) -> What {
        let (part, on) = self.part(draws);
        // Half of the time between two steps, which a time would hardly meet: all of one answer is done within a millisecond.
        let after_polls = match draws.u8(..4) {
            0 => Some(draws.u64(1..=30)),
            1 => Some(draws.u64(1..=1000)),
            _ => None,
        };
        What::Kill { part, on, after_polls }
    }

    fn node(&self, draws: &mut Rng) -> usize {
        draws.usize(..self.nodes.len())
    }

    /// A program of the suite, with where it is.
    fn program(&self, draws: &mut Rng) -> Option<(String, Place)> {
        let programs = self.suite.programs();
        let program = draws.choice(&programs)?.clone();
        let on = match program.runs_on {
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
            (6 | 7, _) => ("scheduler".to_owned(), Place::Scheduler),
            _ => ("kubelet".to_owned(), Place::Node(self.node(draws))),
        }
    }
}
