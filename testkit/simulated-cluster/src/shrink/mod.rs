//! Makes a plan that fails smaller, for as long as the same goes wrong: fewer kills, events, pods, containers and nodes, less time,
//! faults that last less long, fewer ways in which things go wrong by chance.

mod weaker;
mod without_node;

use std::time::{Duration, Instant};

use self::weaker::weaker;
use self::without_node::{part_without_node, without_node};
use crate::plan::{ApiRates, Event, EventSource, Plan, Settings, What};

/// A plan being made smaller.
pub struct Shrinker<F> {
    plan: Plan,
    fails: F,
    until: Instant,
    tried: u32,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest plan that was found.
    pub plan: Plan,
    /// Plans that were tried.
    pub tried: u32,
}

/// The plan with what happens until `until` written down, as long as its source gives it.
pub fn written_down(plan: &Plan, source: &mut dyn EventSource, until: Duration) -> Plan {
    let mut events = Vec::new();
    while let Some(hour) = source.next_hour() {
        let is_over = hour.iter().any(|event| event.time() > until);
        events.extend(hour);
        if is_over {
            break;
        }
    }
    cut_off(Plan { events, ..plan.clone() }, until)
}

/// The plan without what happens after `until`.
pub fn cut_off(mut plan: Plan, until: Duration) -> Plan {
    plan.events.retain(|event| event.time() <= until);
    // The violation may come a moment after the last event.
    plan.seconds = plan.seconds.min(until.as_secs() + 2);
    plan
}

/// Makes a plan smaller for at most `time`, in real time. `fails` runs a plan and says whether the same goes wrong.
pub fn shrink(plan: Plan, time: Duration, fails: impl FnMut(&Plan) -> bool) -> Shrunk {
    // The limit is for whoever waits: which plans are tried depends on it, what a plan does not.
    #[allow(clippy::disallowed_methods, reason = "real time, outside of any simulation")]
    let until = Instant::now() + time;
    let mut shrinker = Shrinker { plan, fails, until, tried: 0 };
    loop {
        let before = shrinker.plan.clone();
        shrinker.fewer_kills();
        shrinker.fewer_events();
        shrinker.fewer_pods();
        shrinker.fewer_nodes();
        shrinker.calmer();
        shrinker.sooner();
        shrinker.weaker();
        if shrinker.plan == before || shrinker.is_late() {
            return Shrunk { plan: shrinker.plan, tried: shrinker.tried };
        }
    }
}

impl<F: FnMut(&Plan) -> bool> Shrinker<F> {
    #[allow(clippy::disallowed_methods, reason = "real time, outside of any simulation")]
    fn is_late(&self) -> bool {
        Instant::now() >= self.until
    }

    /// Takes the smaller plan if the same goes wrong with it.
    fn takes(&mut self, smaller: Plan) -> bool {
        if smaller == self.plan || self.is_late() {
            return false;
        }
        self.tried += 1;
        let fails = (self.fails)(&smaller);
        if fails {
            self.plan = smaller;
        }
        fails
    }

    /// Leaves out kills before polls, the last first.
    fn fewer_kills(&mut self) {
        for kill in (0..self.plan.kills.len()).rev() {
            let mut smaller = self.plan.clone();
            smaller.kills.remove(kill);
            self.takes(smaller);
        }
    }

    /// Leaves out parts of the events, ever smaller ones.
    fn fewer_events(&mut self) {
        let mut size = self.plan.events.len().div_ceil(2);
        while size > 0 {
            let mut from = self.plan.events.len();
            while from > 0 {
                let begin = from.saturating_sub(size);
                let mut smaller = self.plan.clone();
                smaller.events.drain(begin..from);
                self.takes(smaller);
                from = begin.min(self.plan.events.len());
            }
            size = if size == 1 { 0 } else { size.div_ceil(2) };
        }
    }

    /// Leaves out pods that are created together with others.
    fn fewer_pods(&mut self) {
        for place in 0..self.plan.events.len() {
            let count = |plan: &Plan| match plan.events.get(place).map(|event| &event.what) {
                Some(What::Create { pods }) => pods.len(),
                _ => 0,
            };
            let mut pod = count(&self.plan);
            while pod > 0 && count(&self.plan) > 1 {
                pod -= 1;
                let mut smaller = self.plan.clone();
                if let Some(Event { what: What::Create { pods }, .. }) = smaller.events.get_mut(place) {
                    pods.remove(pod);
                }
                self.takes(smaller);
            }
        }
    }

    /// Leaves out nodes, the last first, with what happens on them.
    fn fewer_nodes(&mut self) {
        let mut node = self.plan.nodes.len();
        while node > 0 && self.plan.nodes.len() > 1 {
            node -= 1;
            let mut smaller = self.plan.clone();
            smaller.nodes.remove(node);
            smaller.events.retain_mut(|event| without_node(&mut event.what, node));
            let nodes = self.plan.nodes.len();
            smaller.kills.retain_mut(|(part, _)| part_without_node(part, node, nodes));
            self.takes(smaller);
        }
    }

    /// Leaves out what goes wrong by chance.
    fn calmer(&mut self) {
        for calmer in CALMER {
            let mut smaller = self.plan.clone();
            calmer(&mut smaller.settings);
            self.takes(smaller);
        }
        let names: Vec<String> = self.plan.settings.programs.keys().cloned().collect();
        for name in names {
            let mut smaller = self.plan.clone();
            smaller.settings.programs.remove(&name);
            self.takes(smaller);
        }
    }

    /// Has what happens last less long, come less often or be of fewer containers.
    fn weaker(&mut self) {
        for place in 0..self.plan.events.len() {
            while !self.is_late() {
                let all = self.plan.events.get(place).map(weaker).unwrap_or_default();
                let takes = |event| {
                    let mut smaller = self.plan.clone();
                    if let Some(there) = smaller.events.get_mut(place) {
                        *there = event;
                    }
                    self.takes(smaller)
                };
                if !all.into_iter().any(takes) {
                    break;
                }
            }
        }
    }

    /// Has everything happen sooner.
    fn sooner(&mut self) {
        for place in 0..self.plan.events.len() {
            let before = place.checked_sub(1).map_or(0, |before| self.plan.events[before].at);
            let gap = self.plan.events[place].at - before;
            for shorter in [0, gap / 10, gap / 2] {
                let by = gap - shorter;
                let mut smaller = self.plan.clone();
                smaller.events.iter_mut().skip(place).for_each(|event| event.at -= by);
                smaller.seconds = smaller.seconds.saturating_sub(by / 1000).max(1);
                if by > 1000 && self.takes(smaller) {
                    break;
                }
            }
        }
    }
}

/// What leaves out one thing that goes wrong by chance.
const CALMER: [fn(&mut Settings); 17] = [
    |settings| settings.api.conflict = 0.0,
    |settings| settings.api.gone = 0.0,
    |settings| settings.api.too_many = 0.0,
    |settings| settings.api.internal = 0.0,
    |settings| settings.api.timeout = 0.0,
    |settings| settings.api.lost = 0.0,
    |settings| settings.api.refused = 0.0,
    |settings| settings.api.stale = 0.0,
    |settings| settings.api.short_watch = 0.0,
    |settings| settings.cluster_api = ApiRates::default(),
    |settings| settings.link_loss = 0.0,
    |settings| settings.link_milliseconds = (0, 0),
    |settings| settings.socket_milliseconds = (0, 0),
    |settings| settings.adversarial = false,
    |settings| settings.seeded_order = false,
    |settings| settings.restart_milliseconds = Settings::default().restart_milliseconds,
    |settings| settings.programs.clear(),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{NodePlan, PLAN_VERSION, Place};

    fn plan() -> Plan {
        let pod = |name: &str| json!({"metadata": {"name": name}});
        let kill = |node| What::Kill { part: "kubelet".to_owned(), on: Place::Node(node), after_polls: None };
        let whats = [
            What::Create { pods: vec![pod("a"), pod("b"), pod("c")] },
            kill(0),
            What::Compact,
            kill(2),
            What::ApiDown { seconds: 5 },
            What::Create { pods: vec![pod("d")] },
        ];
        let events = (1..).zip(whats).map(|(place, what)| Event { at: place * 100_000, what }).collect();
        let node = NodePlan { machine: "m".to_owned() };
        Plan {
            v: PLAN_VERSION,
            seed: 1,
            kubernetes: "1.37".to_owned(),
            seconds: 3600,
            nodes: vec![node; 3],
            settings: Settings { link_loss: 0.5, adversarial: true, ..Settings::default() },
            kills: Vec::new(),
            events,
        }
    }

    #[test]
    fn what_does_not_matter_is_left_out() {
        // The same goes wrong where pod b is made before the kubelet of a node is killed, with lossy links.
        let fails = |plan: &Plan| {
            let place =
                |wanted: &dyn Fn(&What) -> bool| plan.events.iter().position(|event| wanted(&event.what));
            let made = place(
                &|what| matches!(what, What::Create { pods } if pods.contains(&json!({"metadata": {"name": "b"}}))),
            );
            let killed = place(&|what| matches!(what, What::Kill { .. }));
            plan.settings.link_loss > 0.0 && made.zip(killed).is_some_and(|(made, killed)| made < killed)
        };
        let shrunk = shrink(plan(), Duration::from_secs(60), fails).plan;
        let expected = [
            Event { at: 0, what: What::Create { pods: vec![json!({"metadata": {"name": "b"}})] } },
            Event {
                at: 0,
                what: What::Kill { part: "kubelet".to_owned(), on: Place::Node(0), after_polls: None },
            },
        ];
        assert_eq!((shrunk.events.as_slice(), shrunk.nodes.len()), (expected.as_slice(), 1));
        assert_eq!((shrunk.settings.link_loss, shrunk.settings.adversarial), (0.5, false));
    }

    #[test]
    fn what_comes_after_the_failure_is_cut_off() {
        let cut = cut_off(plan(), Duration::from_secs(250));
        assert_eq!((cut.events.len(), cut.seconds), (2, 252));
        assert_eq!(cut_off(plan(), Duration::from_secs(9999)), plan());
    }

    #[test]
    fn kills_that_do_not_matter_are_left_out_and_follow_their_node() {
        let kill = |part: &str, poll| (part.to_owned(), poll);
        let kills = vec![kill("extender", 9), kill("plugin/n3", 7), kill("kubelet/n1", 5)];
        let fails =
            |plan: &Plan| plan.kills.iter().any(|(part, poll)| part.starts_with("plugin/") && *poll == 7);
        let shrunk = shrink(Plan { kills, ..plan() }, Duration::from_secs(60), fails).plan;
        assert_eq!((shrunk.kills, shrunk.nodes.len()), (vec![kill("plugin/n1", 7)], 1));
    }

    #[test]
    fn a_plan_that_needs_everything_stays_as_it_is() {
        let whole = Plan { kills: vec![("extender".to_owned(), 9)], ..plan() };
        let mut tried = 0;
        let shrunk = shrink(whole.clone(), Duration::from_secs(60), |smaller| {
            tried += 1;
            smaller == &whole
        });
        assert_eq!((shrunk.plan, shrunk.tried), (whole.clone(), tried));
    }
}
