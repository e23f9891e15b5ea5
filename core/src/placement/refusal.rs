//! Why a pod is not placed on a node, as a type and in the words that users read in the FailedScheduling event.

use std::fmt;

use super::MAX_CONTAINERS;
use crate::ids::DeviceSet;
use crate::names::Resource;

/// Why a node cannot take a pod. The text is one short sentence that stays the same while the reason does:
/// kube-scheduler groups nodes by it and cuts its event at 1,024 characters (docs/reference/kubernetes.md §1).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The instance type has no candidate set of that count: the documented warning, to the letter.
    UnsupportedCount {
        /// The node's instance type.
        instance_type: String,
        /// What is requested.
        resource: Resource,
        /// How many one container requests.
        requested: u32,
    },
    /// More than [`MAX_CONTAINERS`] containers request Neuron hardware.
    TooManyContainers {
        /// How many.
        containers: usize,
    },
    /// Less is free than the pod takes, or the node never had as much.
    NotEnough {
        /// What runs short.
        resource: Resource,
        /// How many the pod takes.
        requested: u32,
        /// How many are free: healthy, and held by no pod.
        free: u32,
        /// How many the node has.
        total: u32,
        /// Devices that the pod takes besides the cores that run short; 0 if the cores alone are too many.
        beside: u32,
        /// Whether even the empty node is too small.
        permanent: bool,
    },
    /// Enough is free, but no candidate set of it.
    NotLinked {
        /// The container that finds no set, if several containers of the pod request Neuron hardware.
        container: Option<String>,
        /// What it requests.
        resource: Resource,
        /// How many it requests.
        requested: u32,
        /// How many are free on the node.
        free: u32,
        /// The most that it could get beside the containers before it; 0 if nothing.
        largest: u32,
    },
    /// The containers would not fit together on this instance type even if the node were empty.
    NeverTogether {
        /// The node's instance type.
        instance_type: String,
        /// The first container that finds no set beside those before it.
        container: String,
        /// What it requests.
        resource: Resource,
        /// How many it requests.
        requested: u32,
    },
    /// The pod would fit if these devices were healthy.
    Unhealthy {
        /// The fewest devices that would do.
        devices: DeviceSet,
    },
    /// The search was given up: among so many containers it takes too long to tell where they fit, or why not.
    NotDecided {
        /// How many containers request Neuron hardware.
        containers: usize,
    },
    /// kubelet chooses freely among ids that init containers hand down, and some choice would be no candidate set.
    HandDownNotSafe {
        /// The container that would get them.
        container: String,
        /// What it requests.
        resource: Resource,
        /// How many it requests.
        requested: u32,
        /// How many are handed down to it.
        handed_down: u32,
        /// Whether it would be so on an empty node, too.
        permanent: bool,
    },
}

impl Refusal {
    /// Whether no pod's end can lift the refusal: the node can never take the pod, however empty it gets.
    pub fn is_permanent(&self) -> bool {
        match self {
            Refusal::UnsupportedCount { .. }
            | Refusal::TooManyContainers { .. }
            | Refusal::NeverTogether { .. } => true,
            Refusal::NotEnough { permanent, .. } | Refusal::HandDownNotSafe { permanent, .. } => *permanent,
            Refusal::NotLinked { .. } | Refusal::Unhealthy { .. } | Refusal::NotDecided { .. } => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnsupportedCount { instance_type, resource, requested } => {
                let noun = resource.noun();
                write!(
                    f,
                    "Instance type {instance_type} does not support requests for {noun}: {requested}. \
                     Please request a different number of {noun}s."
                )
            }
            Refusal::TooManyContainers { containers } => write!(
                f,
                "{containers} containers of the pod ask for Neuron hardware, at most {MAX_CONTAINERS} are placed; \
                 ask in fewer of them"
            ),
            Refusal::NotEnough { resource, requested, free, total, beside, permanent } => {
                let noun = resource.noun();
                let too_small = if *permanent { "the node is too small" } else { "not enough free" };
                write!(f, "{too_small}: Neuron {noun}s asked {requested}")?;
                if *beside > 0 {
                    write!(f, " beside {}", Count(Resource::Device, *beside))?;
                }
                // A permanent refusal is told once, so nothing in it may change with what is free.
                if *permanent {
                    write!(f, "; the node has {} in all", Count(*resource, *total))
                } else {
                    write!(f, ", free {free} of {total}")
                }
            }
            Refusal::NotLinked { container, resource, requested, free, largest } => {
                if let Some(container) = container {
                    write!(f, "container {container}: ")?;
                }
                let noun = resource.noun();
                write!(
                    f,
                    "no linked set of {requested} free Neuron {noun}s: {free} free, the largest linked set has {largest}"
                )
            }
            Refusal::NeverTogether { instance_type, container, resource, requested } => write!(
                f,
                "the pod's containers never fit together on {instance_type}: nothing is left for the {} of container {container}",
                Count(*resource, *requested)
            ),
            Refusal::Unhealthy { devices } => {
                let (noun, if_healthy) =
                    if devices.len() == 1 { ("device", "it was") } else { ("devices", "they were") };
                write!(f, "the pod would fit on unhealthy Neuron {noun} {devices} if {if_healthy} healthy")
            }
            Refusal::NotDecided { containers } => write!(
                f,
                "not decided: there are too many ways to place the pod's {containers} Neuron containers; ask in fewer containers or for \
                 whole devices"
            ),
            Refusal::HandDownNotSafe { container, resource, requested, handed_down, .. } => write!(
                f,
                "init containers from which kubelet could hand down an unlinked set: container {container} asks for {}, \
                 init containers hand down {handed_down}; ask for the same count or make the init container a sidecar",
                Count(*resource, *requested)
            ),
        }
    }
}

impl std::error::Error for Refusal {}

/// A count with its noun: `1 device`, `2 cores`.
struct Count(Resource, u32);

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}{}", self.1, self.0.noun(), if self.1 == 1 { "" } else { "s" })
    }
}
