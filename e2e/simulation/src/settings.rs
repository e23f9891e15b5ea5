//! What a plan sets of the programs, by name: drawn for each seed, and read as they start. Called by `suite`; a plan that does not say a
//! setting has what ships, but for plugins, which wait for processes of pods that are gone.

use std::collections::BTreeMap;
use std::time::Duration;

use neuron_device_plugin::HandoverMode;
use simulated_cluster::plan::Settings;
use simulator::random::Rng;

/// How many seconds the Lease of the extender that leads lasts; 0, or not said: there is one extender, which places alone.
const LEASE_SECONDS: &str = "leaseSeconds";
/// 1 where kube-scheduler sends the extender whole Nodes, else their names (`nodeCacheCapable`).
const WHOLE_NODES: &str = "wholeNodes";
/// What plugins do about processes of pods that are gone: 0 waits, 1 is off, as plugins ship, 2 marks.
const HANDOVER: &str = "handover";

/// All settings of a seed.
pub(crate) fn draw(draws: &mut Rng) -> BTreeMap<String, u64> {
    [
        ("bindDeadline", draws.u64(1000..=4500)),
        ("bindingTimeout", draws.u64(20_000..=60_000)),
        ("poll", draws.u64(3000..=10_000)),
        ("apiTimeout", draws.u64(500..=4000)),
        ("handoverLimit", draws.u64(0..=8000)),
        (WHOLE_NODES, u64::from(draws.u8(..4) == 0)),
        (LEASE_SECONDS, if draws.bool() { draws.u64(2..=30) } else { 0 }),
        // Most wait: what kubelet gives again at once is no mistake of a plugin that was told not to look.
        (HANDOVER, [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2][draws.usize(..12)]),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// What is wrong with a value: a time of none has a program ask without end, but for [`LEASE_SECONDS`] and the time that a handover may take.
pub(crate) fn problem(name: &str, value: u64) -> Option<String> {
    let most = match name {
        WHOLE_NODES => 1,
        HANDOVER => 2,
        LEASE_SECONDS | "handoverLimit" => return None,
        _ if value > 0 => return None,
        _ => return Some("it is 1 or more".to_owned()),
    };
    (value > most).then(|| format!("it is 0 to {most}"))
}

/// A time that is set in milliseconds; none where the plan does not say it.
pub(crate) fn milliseconds(settings: &Settings, name: &str) -> Option<Duration> {
    settings.programs.get(name).copied().map(Duration::from_millis)
}

/// How long the Lease of the extender that leads lasts; none where there is one extender.
pub(crate) fn lease_duration(settings: &Settings) -> Option<Duration> {
    settings.programs.get(LEASE_SECONDS).filter(|seconds| **seconds > 0).copied().map(Duration::from_secs)
}

/// Whether kube-scheduler sends the extender whole Nodes.
pub(crate) fn sends_whole_nodes(settings: &Settings) -> bool {
    settings.programs.get(WHOLE_NODES) == Some(&1)
}

/// What plugins do about processes of pods that are gone.
pub(crate) fn handover(settings: &Settings) -> HandoverMode {
    match settings.programs.get(HANDOVER) {
        None | Some(0) => HandoverMode::Wait,
        Some(1) => HandoverMode::Off,
        Some(_) => HandoverMode::Mark,
    }
}

#[cfg(test)]
mod tests {
    use simulator::random::stream;

    use super::*;

    #[test]
    fn what_is_drawn_is_no_problem_and_what_no_program_can_run_with_is_told() {
        for seed in 0..100 {
            let drawn = draw(&mut stream(seed, "settings"));
            let told: Vec<_> = drawn.iter().filter_map(|(name, value)| problem(name, *value)).collect();
            assert_eq!(told, [""; 0], "{drawn:?}");
        }
        assert_eq!(problem("poll", 0).as_deref(), Some("it is 1 or more"));
        assert_eq!(problem(HANDOVER, 9).as_deref(), Some("it is 0 to 2"));
        assert_eq!(problem(WHOLE_NODES, 2).as_deref(), Some("it is 0 to 1"));
        assert_eq!(problem(LEASE_SECONDS, 0), None);
    }
}
