//! The processor time of the programs that take part in a run, by their names: an extender that costs little itself may have others do
//! more. Looked at by [`super::rounds`]; what runs in kind's nodes is among the machine's own processes.

use std::collections::BTreeMap;

use super::serve::processor_seconds;

/// The programs beside the extender, each as the kernel names it, in 15 bytes.
const PROGRAMS: [(&str, &str); 4] = [
    ("etcd", "etcd"),
    ("kube-apiserver", "kube-apiserver"),
    ("kube-controller", "kube-controller-manager"),
    ("kube-scheduler", "kube-scheduler"),
];

/// Seconds that each process of these programs has used so far, by its number.
#[derive(Debug)]
pub(super) struct ProgramTimes(BTreeMap<String, (&'static str, f64)>);

impl ProgramTimes {
    /// The times now; none where the system does not say.
    pub(super) fn now() -> Self {
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let times = processes.filter_map(|process| {
            let id = process.file_name().into_string().ok().filter(|id| id.parse::<u32>().is_ok())?;
            let stat = std::fs::read_to_string(process.path().join("stat")).ok()?;
            Some((id, (program(&stat)?, processor_seconds(&stat)?)))
        });
        Self(times.collect())
    }

    /// Seconds that the processes of each program have used since then, with those that have begun since.
    pub(super) fn since(&self, before: &Self) -> BTreeMap<&'static str, f64> {
        let mut all = BTreeMap::new();
        for (id, (program, seconds)) in &self.0 {
            let then = before.0.get(id).filter(|(then, _)| then == program).map_or(0.0, |(_, then)| *then);
            *all.entry(*program).or_default() += seconds - then;
        }
        all
    }
}

fn program(stat: &str) -> Option<&'static str> {
    let (_, name) = stat.split_once('(')?;
    let (name, _) = name.rsplit_once(')')?;
    PROGRAMS.into_iter().find(|(short, _)| *short == name).map(|(_, program)| program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(processes: &[(&str, &'static str, f64)]) -> ProgramTimes {
        let all = processes.iter().map(|(id, program, seconds)| ((*id).to_owned(), (*program, *seconds)));
        ProgramTimes(all.collect())
    }

    #[test]
    fn what_a_program_used_is_the_sum_of_its_processes_since_then() {
        let before = times(&[("1", "etcd", 5.0), ("2", "kube-scheduler", 7.0), ("3", "kube-scheduler", 9.0)]);
        let after = times(&[("1", "etcd", 5.5), ("2", "kube-scheduler", 8.0), ("4", "kube-scheduler", 2.0)]);
        let expected = BTreeMap::from([("etcd", 0.5), ("kube-scheduler", 3.0)]);
        assert_eq!(after.since(&before), expected);
    }

    #[test]
    fn a_program_is_known_by_the_name_that_the_kernel_keeps() {
        assert_eq!(program("7 (kube-controller) S 1 7"), Some("kube-controller-manager"));
        assert_eq!(program("7 (kube-controllers) S 1 7"), None);
        assert_eq!(program("7 (a) b (etcd)) S 1 7"), None);
    }
}
