//! Draws faults that come together: what breaks at one time, or again and again.

use simulator::random::Rng;

use super::Generated;
use super::faults::{FOR_GOOD, left};
use super::settings::rates;
use crate::plan::{Event, Place, What};
use crate::suite::RunsOn;

/// How many writes a cache is behind at most: some ten minutes of a small cluster's.
const FARTHEST: u32 = 300;
/// How many pods somebody tries to edit, of so many that were made last.
const TRIED: usize = 8;
const LATELY: u64 = 30;
/// How long something about a whole machine is wrong at most, in seconds.
const LONGEST_OF_MACHINE: u32 = 120;
/// How often a monitor asks while somebody looks at it, at most.
const MOST_QUESTIONS: usize = 20;

impl Generated {
    /// In one hour of three a part is killed every few seconds, for a minute or two; every other time the API server has too much to
    /// do as well, and what was done is seen late.
    pub(super) fn kill_storm(&self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("kill storm");
        let mut events = Vec::new();
        if draws.u8(..3) > 0 {
            return events;
        }
        let mut at = draws.u64(..busy);
        let ends = at + draws.u64(60_000..180_000);
        if draws.bool() {
            events.extend(self.too_much_to_do(&mut draws, at, left(at, busy).min(180)));
        }
        while at < ends.min(busy) {
            events.push(Event { at, what: self.kill(&mut draws) });
            at += draws.u64(500..12_000);
        }
        events
    }

    /// In every other hour the API server has more to do than it can: answers are lost and watches lag, both at one time.
    pub(super) fn overload(&self, busy: u64) -> Vec<Event> {
        let mut draws = self.draws("overload");
        let at = draws.u64(..busy);
        if draws.bool() {
            return Vec::new();
        }
        let Some(seconds) = self.seconds(&mut draws, left(at, busy)) else { return Vec::new() };
        self.too_much_to_do(&mut draws, at, seconds)
    }

    /// Answers are lost and watches lag while a monitor asks a kubelet, which the plugin's own questions keep waiting.
    fn too_much_to_do(&self, draws: &mut Rng, at: u64, seconds: u32) -> Vec<Event> {
        let others = [Place::Scheduler, Place::Node(self.node(draws))];
        let places = self.controls().into_iter().chain(others);
        let lag = places.map(|on| What::WatchLag { on, milliseconds: draws.u32(1000..=60_000), seconds });
        let lag: Vec<What> = lag.collect();
        let all = [What::ApiFaults { rates: rates(draws, 0.5), seconds }].into_iter().chain(lag);
        let mut events: Vec<Event> = all.map(|what| Event { at, what }).collect();
        events.extend(self.monitor(draws, at, seconds));
        events
    }

    /// A monitor on a node asks again and again, as they do every few seconds; a bad one without a pause.
    pub(super) fn monitor(&self, draws: &mut Rng, at: u64, seconds: u32) -> Vec<Event> {
        let every = if draws.u8(..4) == 0 { 20..=200 } else { 500..=15_000 };
        let (node, every) = (self.node(draws), draws.u64(every));
        let ends = at + u64::from(seconds) * 1000;
        let times = (at..=ends).step_by(every as usize).take(MOST_QUESTIONS);
        times.map(|at| Event { at, what: What::ForeignList { node } }).collect()
    }

    /// The API server that a host reaches is behind, and what reads lists there is started again meanwhile: once it is known what it
    /// has to look for, nothing begins with a list.
    pub(super) fn cache_behind(&self, draws: &mut Rng, at: u64, seconds: u32) -> Vec<Event> {
        let (part, on) = match draws.u8(..3) {
            0 => ("scheduler", Place::Scheduler),
            _ => ("kubelet", Place::Node(self.node(draws))),
        };
        let farthest = [3, 30, FARTHEST][draws.usize(..3)];
        let writes = draws.u32(1..=farthest);
        let kill = What::Kill { part: part.to_owned(), on, after_polls: None };
        let killed = at + draws.u64(..=u64::from(seconds) * 1000);
        vec![
            Event { at, what: What::CacheBehind { on, writes, seconds: seconds.saturating_add(30) } },
            Event { at: killed, what: kill },
        ]
    }

    /// Somebody edits pods: those that stay, and, since it is not known which of the others run by then, many that were made lately.
    pub(super) fn edit_pods(&self, draws: &mut Rng, at: u64) -> Vec<Event> {
        let edits = self.suite.pod_edits();
        let Some(what) = draws.choice(&edits) else { return Vec::new() };
        let made =
            (0..TRIED).filter_map(|_| Some(format!("p{}", self.named.checked_sub(draws.u64(..LATELY))?)));
        let pods: Vec<String> = self.staying.iter().cloned().chain(made).collect();
        let edit = |pod| Event { at, what: What::EditPod { pod, what: (*what).to_owned() } };
        pods.into_iter().map(edit).collect()
    }

    /// Something about a whole machine goes wrong; every other time the plugin is started again meanwhile, and has to begin so.
    pub(super) fn machine(&self, draws: &mut Rng, at: u64, seconds: u32) -> Vec<Event> {
        let (node, seconds) = (self.node(draws), seconds.min(LONGEST_OF_MACHINE));
        let faults = self.nodes.get(node).map(|node| self.suite.machine_faults(node)).unwrap_or_default();
        let drawn: Vec<&str> =
            faults.into_iter().filter(|(_, is_drawn)| *is_drawn).map(|(name, _)| name).collect();
        let Some(fault) = draws.choice(&drawn) else { return Vec::new() };
        let mut events =
            vec![Event { at, what: What::Machine { node, fault: (*fault).to_owned(), seconds } }];
        let on_nodes: Vec<_> = self
            .suite
            .programs()
            .into_iter()
            .filter(|program| program.runs_on == RunsOn::EveryNode)
            .collect();
        if draws.bool()
            && let Some(program) = draws.choice(&on_nodes)
        {
            let at = at + draws.u64(..u64::from(seconds) * 1000);
            let (part, on) = (program.name.to_owned(), Place::Node(node));
            events.push(Event { at, what: What::Kill { part, on, after_polls: None } });
        }
        events
    }

    /// A node loses its power. Now and then it comes back with a device less, or before it reaches the API server: then its plugin has
    /// registered before kubelet admits the pods again.
    pub(super) fn power_loss(&self, draws: &mut Rng, at: u64, seconds: u32) -> Vec<Event> {
        let node = self.node(draws);
        // Pods need others to run on.
        if node >= 2 && node + 1 == self.nodes.len() && draws.u8(..FOR_GOOD) == 0 {
            return vec![Event { at, what: What::PowerLoss { node, seconds: None } }];
        }
        let mut events = vec![Event { at, what: What::PowerLoss { node, seconds: Some(seconds) } }];
        let longer = seconds + draws.u32(10..=60);
        if draws.u8(..3) == 0 {
            let device = self.device(draws, node, longer);
            events.extend(device.map(|what| Event { at, what }));
        }
        if draws.u8(..3) == 0 {
            let (from, to) = (Place::Node(node), Place::ApiServer);
            let cut = What::Cut { from, to, both: true, reset: false, seconds: longer };
            events.push(Event { at, what: cut });
        }
        events
    }
}
