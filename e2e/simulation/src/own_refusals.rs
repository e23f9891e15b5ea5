//! What Kubernetes itself refuses at admission now and then, which is a list: words, what must be so on the node, and where that is
//! known from. Asked by `admission`.

use std::time::Duration;

use neuron_core::names::{NEURON, NEURONCORE};
use simulated_cluster::suite::{RefusedPod, Units};

use crate::judge::units_of_ids;
use crate::machine::Machine;

/// A refusal that is no mistake of the suite's programs while one of these is so.
pub(crate) struct Own {
    /// Words of the text.
    pub(crate) says: &'static str,
    /// What it is counted as.
    pub(crate) name: &'static str,
    pub(crate) when: &'static [When],
    /// Why Kubernetes, or the plugin with good reason, does so, and where that is known from.
    #[cfg_attr(not(test), expect(dead_code, reason = "for who reads the list"))]
    why: &'static str,
}

/// What has to be so on the pod's node.
pub(crate) enum When {
    /// Something was done to one of these parts within so many seconds: it was started, killed, frozen or let go on.
    Disturbed(&'static [&'static str], u64),
    /// The devices that the text names are broken, or were until lately.
    NamedBroken,
    /// Devices that kubelet's books give the pod are broken, or were until lately.
    OwnBroken,
    /// All devices are broken, or were until lately.
    AllBroken,
    /// Fewer ids than the text says are asked for are left by containers, kubelet's books and what is broken.
    TooFew,
}

/// Who must be at work for a resource to be there.
const BOTH: &[&str] = &["kubelet", "plugin"];
const PLUGIN: &[&str] = &["plugin"];

/// Kubernetes' own list. The first line whose words a text has is the one that counts.
pub(crate) const OWN: &[Own] = &[
    Own {
        says: " is unhealthy: ",
        name: "refusals for: unhealthy",
        when: &[When::NamedBroken, When::Disturbed(PLUGIN, 60)],
        why: "a device that is handed down, or that kubelet chose before it had the plugin's new list, is not given while broken \
              (docs/reference/kubernetes.md §6: kubelet takes any of what is handed down)",
    },
    Own {
        says: "failed to write checkpoint file: ",
        name: "refusals for: checkpoint not written",
        when: &[When::Disturbed(&["checkpoint"], 60)],
        why: "kubelet refuses what it has given and could not write down (docs/reference/kubernetes.md §7)",
    },
    Own {
        says: "no Neuron device is advertised yet",
        name: "refusals for: nothing advertised",
        when: &[When::Disturbed(PLUGIN, 60)],
        why: "kubelet asks as soon as the plugin is registered (docs/reference/kubernetes.md §1)",
    },
    Own {
        says: "cannot allocate unregistered device ",
        name: "refusals for: unregistered",
        when: &[When::Disturbed(BOTH, 360)],
        why: "kubelet has started without its checkpoint, or has forgotten the resource five minutes after its plugin's end \
              (docs/reference/kubernetes.md §2, GetCapacity)",
    },
    Own {
        says: "no healthy devices present; ",
        name: "refusals for: no healthy devices",
        when: &[When::AllBroken, When::Disturbed(BOTH, 60)],
        why: "kubelet knows no device between its start, or the plugin's end, and the next registration \
              (docs/reference/kubernetes.md §4, device_manager_test.go: admission error after kubelet restart)",
    },
    Own {
        says: "previously allocated devices are no longer healthy; ",
        name: "refusals for: own devices unhealthy",
        when: &[When::OwnBroken, When::Disturbed(PLUGIN, 60)],
        why: "after a kubelet restart a container that does not run fails its admission if its own ids are unhealthy \
              (docs/reference/kubernetes.md §6)",
    },
    Own {
        says: "requested number of devices unavailable for ",
        name: "refusals for: too few devices",
        when: &[When::TooFew, When::Disturbed(BOTH, 60)],
        why: "the API's allocatable is older than kubelet's own count by up to ten seconds (docs/reference/kubernetes.md §6)",
    },
    Own {
        says: "Node didn't have enough resource: aws.amazon.com/neuron",
        name: "refusals for: node out of resources",
        when: &[When::TooFew, When::Disturbed(BOTH, 60)],
        why: "the node's status lags behind the plugin's list by up to ten seconds, and a pod bound meanwhile fails for good \
              (docs/reference/kubernetes.md §6)",
    },
    Own {
        says: " has been stopped",
        name: "refusals for: plugin stopped",
        when: &[When::Disturbed(PLUGIN, 300)],
        why: "for five minutes after the plugin's end its devices stay in kubelet's books (docs/reference/kubernetes.md §2)",
    },
    Own {
        says: "error reading from server: EOF",
        name: "refusals for: plugin ended",
        when: &[When::Disturbed(BOTH, 60)],
        why: "the plugin ended while kubelet asked it, which a kubelet that was frozen says later",
    },
    Own {
        says: "transport: Error while dialing",
        name: "refusals for: plugin not reached",
        when: &[When::Disturbed(BOTH, 60)],
        why: "the plugin ended, which kubelet has not noticed yet, or was frozen meanwhile",
    },
];

impl When {
    pub(crate) fn is_so(&self, machine: &Machine, refused: &RefusedPod<'_>, broken: &Units) -> bool {
        match self {
            When::Disturbed(parts, seconds) => parts.iter().any(|part| {
                refused.truth.is_disturbed(part, &refused.pod.node, Duration::from_secs(*seconds))
            }),
            When::NamedBroken => {
                let named =
                    refused.message.split(" is unhealthy: ").next().and_then(|text| text.rsplit(' ').next());
                let named = named.and_then(|ids| units_named(machine, ids));
                named.is_some_and(|named| named.is_subset(broken))
            }
            When::OwnBroken => {
                let own = refused.books.iter().filter(|((uid, _), _)| *uid == refused.pod.uid);
                own.into_iter().any(|(_, units)| !units.is_disjoint(broken))
            }
            When::AllBroken => (0..u32::from(machine.cores())).all(|core| broken.contains(&core)),
            When::TooFew => {
                let mut taken: Units = refused.held.union(broken).copied().collect();
                taken.extend(refused.books.values().flatten());
                let sets = match resource_in(refused.message) {
                    NEURON => machine.device_sets(1),
                    _ => machine.core_sets(1),
                };
                let asked = refused
                    .message
                    .split_once("equested: ")
                    .and_then(|(_, rest)| rest.split(|end: char| !end.is_ascii_digit()).next()?.parse().ok());
                asked.is_some_and(|asked: usize| {
                    sets.iter().filter(|set| set.is_disjoint(&taken)).count() < asked
                })
            }
        }
    }
}

/// The resource that a text is about.
fn resource_in(message: &str) -> &'static str {
    if message.contains(NEURONCORE) { NEURONCORE } else { NEURON }
}

/// The cores of ids such as `neuron1,neuron2`.
pub(crate) fn units_named(machine: &Machine, ids: &str) -> Option<Units> {
    let resource = if ids.contains("neuroncore") { NEURONCORE } else { NEURON };
    let ids: Vec<String> = ids.split(',').map(str::to_owned).collect();
    units_of_ids(machine, resource, &ids).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_says_why() {
        for own in OWN {
            assert!(!own.why.is_empty() && !own.when.is_empty(), "{}", own.says);
        }
    }
}
