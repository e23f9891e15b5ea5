//! Which cluster runs which scenario next, so that nodes seldom change their hardware, schedulers seldom their
//! configuration, and all clusters are done at about the same time. Called by `session`; knows no cluster.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::kind::cluster::scheduling::{Route, Scheduling};
use crate::kind::stage::route;
use neuron_e2e_engine::scenario::{NodeSpec, Part, Scenario, Step, Tier};

/// One scenario with one scheduler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) scheduling: Scheduling,
    /// Its place in the run: all scenarios of the first scheduler, then those of the next.
    pub(super) place: usize,
    seconds: u32,
}

/// The jobs that no cluster has taken yet.
pub(super) struct Jobs<'s> {
    state: Mutex<State<'s>>,
}

struct State<'s> {
    waiting: Vec<Job<'s>>,
    /// What each cluster took last, by the cluster's place.
    last: BTreeMap<usize, Job<'s>>,
}

impl<'s> Jobs<'s> {
    /// Every scenario that runs on kind, with every scheduler; those of the fault tier with the first only, as how the extender
    /// is called makes no difference to what they break.
    pub(super) fn new(scenarios: &'s [Scenario], schedulings: &[Scheduling]) -> Self {
        let here = scenarios
            .iter()
            .filter(|scenario| scenario.only.as_ref().is_none_or(|only| only.cluster == "kind"));
        let pairs = schedulings.iter().flat_map(|by| here.clone().map(|scenario| (scenario, *by)));
        let pairs =
            pairs.filter(|(scenario, by)| scenario.tier != Tier::Faults || Some(by) == schedulings.first());
        let job = |(place, (scenario, scheduling)): (usize, (&'s Scenario, Scheduling))| Job {
            scenario,
            scheduling,
            place,
            seconds: seconds(scenario),
        };
        let waiting = pairs.enumerate().map(job).collect();
        Self { state: Mutex::new(State { waiting, last: BTreeMap::new() }) }
    }

    /// The number of workers of each cluster, at most `clusters` of them and no more than there are jobs: the first
    /// has the most that a scenario needs, the others as many as leave each its share of the work.
    pub(super) fn sizes(&self, clusters: usize) -> Vec<usize> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut work: Vec<(usize, u32)> =
            state.waiting.iter().map(|job| (job.scenario.nodes.len(), job.seconds)).collect();
        work.sort_by_key(|(nodes, _)| std::cmp::Reverse(*nodes));
        let clusters = clusters.max(1).min(work.len());
        let all: u32 = work.iter().map(|(_, seconds)| seconds).sum();
        let size = |place: usize| {
            // What is left when the clusters before it have done their share.
            let share = all as usize * place / clusters;
            let mut done = 0;
            let first = work.iter().find(|(_, seconds)| {
                done += *seconds as usize;
                done > share
            });
            first.map_or(1, |(nodes, _)| *nodes)
        };
        (0..clusters).map(size).collect()
    }

    /// The next job of the cluster at this place, which has so many workers; none if it can run none that is left.
    pub(super) fn take(&self, cluster: usize, workers: usize) -> Option<Job<'s>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let rank = |job: &Job<'s>| state.rank(cluster, job);
        let fits = |job: &&Job<'s>| job.scenario.nodes.len() <= workers;
        let best = state.waiting.iter().filter(fits).max_by_key(|job| rank(job))?.place;
        let index = state.waiting.iter().position(|job| job.place == best)?;
        let job = state.waiting.remove(index);
        state.last.insert(cluster, job);
        Some(job)
    }

    /// The jobs that no cluster took.
    pub(super) fn rest(&self) -> Vec<Job<'s>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).waiting.clone()
    }
}

impl<'s> State<'s> {
    /// The higher, the sooner the cluster should run it.
    fn rank(&self, cluster: usize, job: &Job<'s>) -> impl Ord + use<> {
        let last = self.last.get(&cluster);
        let others = || self.last.iter().filter(|(other, _)| **other != cluster).map(|(_, last)| last);
        let same_scheduling = last.is_some_and(|last| last.scheduling == job.scheduling);
        // Work of a scheduler that is left for each cluster that is at it, should this one join.
        let at_it = others().filter(|last| last.scheduling == job.scheduling).count() as u32;
        let need = self.left(|other| other.scheduling == job.scheduling) / (at_it + 1);
        let route = |job: &Job<'_>| route(job.scenario);
        let same_route = last.map_or(Route::Service, route) == route(job);
        let same_nodes = last.is_some_and(|last| nodes(last) == nodes(job));
        let alone = !others().any(|last| last.scheduling == job.scheduling && nodes(last) == nodes(job));
        let of_these_nodes =
            self.left(|other| other.scheduling == job.scheduling && nodes(other) == nodes(job));
        (
            (same_scheduling, need, std::cmp::Reverse(job.scheduling as u8)),
            same_route,
            // Few clusters can.
            job.scenario.nodes.len(),
            same_nodes,
            alone,
            // Where all are taken, the longest; else the hardware that most work is left for.
            if alone { of_these_nodes } else { 0 },
            job.seconds,
            std::cmp::Reverse(job.place),
        )
    }

    fn left(&self, which: impl Fn(&Job<'s>) -> bool) -> u32 {
        self.waiting.iter().filter(|job| which(job)).map(|job| job.seconds).sum()
    }
}

fn nodes<'s>(job: &Job<'s>) -> &'s [NodeSpec] {
    &job.scenario.nodes
}

/// About how many seconds it takes: good enough to put long ones first.
fn seconds(scenario: &Scenario) -> u32 {
    fn of(scenario: &Scenario, steps: &[Step]) -> u32 {
        let pod = |manifest: &serde_json::Value| {
            let name = manifest["metadata"]["name"].as_str().unwrap_or_default();
            let expected = scenario.expect.get(name).and_then(|expected| expected.phase.as_deref());
            if expected == Some("Pending") { 1 } else { 4 }
        };
        let step = |step: &Step| match step {
            Step::Apply(pods) | Step::ApplyTogether(pods) => pods.iter().map(pod).sum(),
            Step::Churn(churn) => churn.pods.iter().map(pod).sum(),
            Step::Hold(hold) => 10 + of(scenario, &hold.steps),
            Step::Device(_) => 7,
            Step::Preempt(preempt) => 4 + 2 * u32::try_from(preempt.ends.len()).unwrap_or_default(),
            Step::Restart(target) | Step::Stop(target) | Step::Start(target) => match target.part {
                Part::Kubelet | Part::Plugin | Part::Node => 8,
                // Another one leads once the Lease is over.
                Part::ExtenderLeader => 20,
                _ => 5,
            },
            Step::AdvanceClock(seconds) => u32::try_from(*seconds).unwrap_or_default(),
            _ => 0,
        };
        steps.iter().map(step).sum()
    }
    1 + of(scenario, &scenario.steps)
}

#[cfg(test)]
mod tests {
    use super::*;
    use neuron_e2e_engine::scenario::library;

    const BOTH: [Scheduling; 2] = [Scheduling::MyScheduler, Scheduling::Default];

    /// Lets the clusters take turns as they would: whoever has spent least takes next. What each took, in order.
    fn played<'s>(jobs: &Jobs<'s>, sizes: &[usize]) -> Vec<Vec<Job<'s>>> {
        let mut taken: Vec<Vec<Job<'s>>> = sizes.iter().map(|_| Vec::new()).collect();
        let mut idle: Vec<usize> = Vec::new();
        loop {
            let spent = |place: &usize| taken[*place].iter().map(|job| job.seconds).sum::<u32>();
            let next = (0..sizes.len()).filter(|place| !idle.contains(place)).min_by_key(spent);
            let Some(place) = next else { return taken };
            match jobs.take(place, sizes[place]) {
                Some(job) => taken[place].push(job),
                None => idle.push(place),
            }
        }
    }

    #[test]
    fn every_scenario_runs_once_with_each_scheduler_but_faults_with_the_first_only() {
        let scenarios = library::all(&Default::default()).unwrap();
        for clusters in 1..=4 {
            let jobs = Jobs::new(&scenarios, &BOTH);
            let sizes = jobs.sizes(clusters);
            let mut places: Vec<usize> =
                played(&jobs, &sizes).into_iter().flatten().map(|job| job.place).collect();
            places.sort_unstable();
            let here = scenarios
                .iter()
                .filter(|scenario| scenario.only.as_ref().is_none_or(|only| only.cluster == "kind"));
            let times = here.map(|scenario| if scenario.tier == Tier::Faults { 1 } else { 2 });
            assert_eq!(places, (0..times.sum()).collect::<Vec<usize>>());
        }
    }

    #[test]
    fn one_cluster_has_the_most_workers_and_the_others_one() {
        let scenarios = library::all(&Default::default()).unwrap();
        assert_eq!(Jobs::new(&scenarios, &BOTH).sizes(3), [3, 1, 1]);
        assert_eq!(Jobs::new(&scenarios, &BOTH).sizes(0), [3]);
        let few: Vec<Scenario> = scenarios.into_iter().filter(|one| one.name == "reused").collect();
        assert_eq!(Jobs::new(&few, &BOTH).sizes(3), [1, 1]);
        assert_eq!(Jobs::new(&[], &BOTH).sizes(3), Vec::<usize>::new());
    }

    #[test]
    fn a_cluster_changes_its_scheduler_once_and_all_end_together() {
        let scenarios = library::all(&Default::default()).unwrap();
        let jobs = Jobs::new(&scenarios, &BOTH);
        let longest = scenarios.iter().map(seconds).max().unwrap();
        let taken = played(&jobs, &jobs.sizes(3));
        let spent: Vec<u32> =
            taken.iter().map(|jobs| jobs.iter().map(|job| job.seconds).sum::<u32>()).collect();
        assert!(spent.iter().max().unwrap() - spent.iter().min().unwrap() < longest, "{spent:?}");
        for jobs in taken {
            let changes = jobs.windows(2).filter(|pair| pair[0].scheduling != pair[1].scheduling).count();
            assert!(changes <= 1, "{:?}", jobs.iter().map(|job| job.scheduling).collect::<Vec<_>>());
        }
    }

    #[test]
    fn scenarios_with_equal_nodes_follow_each_other() {
        let scenarios = library::all(&Default::default()).unwrap();
        let jobs = Jobs::new(&scenarios, &BOTH[..1]);
        let taken = played(&jobs, &jobs.sizes(1));
        let order: Vec<&[NodeSpec]> = taken[0].iter().map(nodes).collect();
        let changes = 1 + order.windows(2).filter(|pair| pair[0] != pair[1]).count();
        let mut kinds: Vec<&[NodeSpec]> = Vec::new();
        for nodes in order {
            if !kinds.contains(&nodes) {
                kinds.push(nodes);
            }
        }
        // One more: the one that goes through the proxy comes last.
        assert!(changes <= kinds.len() + 1, "{changes} changes, {} kinds", kinds.len());
    }
}
