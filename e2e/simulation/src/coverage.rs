//! Nothing sleeps unseen: which faults, refusals and recovery branches a simulation should reach, and which of them it did not.

use std::collections::BTreeMap;

use simulated_cluster::Summary;
use simulated_cluster::suite::Suite;

use crate::Neuron;

/// Branches that no simulation reaches, each with the reason.
const OUT_OF_REACH: &[(&str, &str)] = &[];

/// How often everything was reached that should be, by name.
pub fn reached(summaries: &[Summary]) -> BTreeMap<String, u64> {
    let mut reached: BTreeMap<String, u64> = all().map(|name| (name, 0)).collect();
    for summary in summaries {
        let faults = summary.faults.iter().map(|(name, count)| (format!("fault: {name}"), *count));
        let branches = summary.branches.iter().map(|(name, count)| (name.clone(), *count));
        for (name, count) in branches.chain(faults) {
            *reached.entry(name).or_default() += count;
        }
    }
    reached
}

/// What was never reached and should have been.
pub fn unreached(summaries: &[Summary]) -> Vec<String> {
    let is_reachable = |name: &String| OUT_OF_REACH.iter().all(|(other, _)| other != name);
    reached(summaries)
        .into_iter()
        .filter(|(_, count)| *count == 0)
        .map(|(name, _)| name)
        .filter(is_reachable)
        .collect()
}

fn all() -> impl Iterator<Item = String> {
    let branches = [neuron_extender::BRANCHES, neuron_device_plugin::BRANCHES];
    branches.into_iter().flatten().map(|name| (*name).to_owned()).chain(faults())
}

/// Every kind of fault.
fn faults() -> impl Iterator<Item = String> {
    let suite = Neuron::default();
    let programs: Vec<&str> = suite.programs().iter().map(|program| program.name).collect();
    let parts = programs.iter().copied().chain(["kubelet", "scheduler"]);
    let of_parts = parts.flat_map(|part| [format!("kill {part}"), format!("freeze {part}")]);
    let second = programs.iter().map(|program| format!("second {program}"));
    let of_devices = ["lost", "unhealthy", "hangs"].map(|fault| format!("device {fault}"));
    let edits = suite.edits().into_iter().map(|edit| format!("edit {edit}"));
    let others = simulated_cluster::plan::FAULTS.iter().map(|fault| (*fault).to_owned());
    let all: Vec<String> = of_parts.chain(second).chain(of_devices).chain(edits).chain(others).collect();
    all.into_iter().map(|name| format!("fault: {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_out_of_reach_is_a_branch_and_says_why() {
        let all: Vec<String> = all().collect();
        for (name, why) in OUT_OF_REACH {
            assert!(all.iter().any(|known| known == name), "{name} is no branch");
            assert!(!why.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_no_run_reached_is_told() {
        let mut summary = Summary::default();
        let unreached_by_none = unreached(&[summary.clone()]);
        assert!(unreached_by_none.contains(&"fault: kill extender".to_owned()));
        summary.faults.insert("kill extender".to_owned(), 1);
        assert_eq!(unreached(&[summary]).len(), unreached_by_none.len() - 1);
    }
}
