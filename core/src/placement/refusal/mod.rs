//! Why a pod is not placed on a node, in the words that users read in the FailedScheduling event.

mod diagnose;

use std::fmt;

pub(super) use self::diagnose::{too_many, why};
use crate::ids::DeviceSet;
use crate::names::Resource;
use crate::placement::MOST_CONTAINERS;

/// Why a pod does not fit a node. The display is one short sentence that stays the same while the reason
/// does: kube-scheduler groups nodes by it and cuts its event at 1,024 characters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The type has no set of that count: the documented warning, to the letter.
    UnsupportedCount {
        /// The node's instance type.
        instance_type: String,
        /// What was asked for.
        resource: Resource,
        /// How many one container asked for.
        asked: u32,
    },
    /// More containers ask than are placed in one pod, on any node.
    TooManyContainers {
        /// How many.
        containers: usize,
    },
    /// Less is free than the pod takes, or the node never had as much.
    NotEnough {
        /// What runs short.
        resource: Resource,
        /// How many the pod takes.
        asked: u32,
        /// How many are free: healthy, and held by nobody.
        free: u32,
        /// How many the node has.
        total: u32,
        /// Devices that the pod takes besides the cores that run short; 0 if the cores alone are too many.
        beside: u32,
        /// Whether even the empty node is too small.
        permanent: bool,
    },
    /// Enough is free, but no allowed set of it.
    NotLinked {
        /// The container that finds no set, if the pod has several that ask.
        container: Option<String>,
        /// What it asked for.
        resource: Resource,
        /// How many it asked for.
        asked: u32,
        /// How many are free on the node.
        free: u32,
        /// The most that it could get beside the containers before it.
        largest: u32,
    },
    /// The containers would not fit together on this type even if the node were empty.
    NeverTogether {
        /// The node's instance type.
        instance_type: String,
        /// The first container that finds no set beside those before it.
        container: String,
        /// What it asked for.
        resource: Resource,
        /// How many it asked for.
        asked: u32,
    },
    /// The pod would fit if these devices were healthy.
    Unhealthy {
        /// As few devices as would do.
        devices: DeviceSet,
    },
    /// kubelet chooses freely among ids that init containers hand down, and some choice would not be allowed.
    InitShape {
        /// The container that would get them.
        container: String,
        /// What it asked for.
        resource: Resource,
        /// How many it asked for.
        asked: u32,
        /// How many are handed down to it.
        handed_down: u32,
        /// Whether it would be so on an empty node too.
        permanent: bool,
    },
}

impl Refusal {
    /// Whether this node can never serve the pod, however empty it gets.
    pub fn is_permanent(&self) -> bool {
        match self {
            Refusal::UnsupportedCount { .. }
            | Refusal::TooManyContainers { .. }
            | Refusal::NeverTogether { .. } => true,
            Refusal::NotEnough { permanent, .. } | Refusal::InitShape { permanent, .. } => *permanent,
            Refusal::NotLinked { .. } | Refusal::Unhealthy { .. } => false,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::UnsupportedCount { instance_type, resource, asked } => {
                let noun = resource.noun();
                write!(
                    f,
                    "Instance type {instance_type} does not support requests for {noun}: {asked}. \
                     Please request a different number of {noun}s."
                )
            }
            Refusal::TooManyContainers { containers } => write!(
                f,
                "{containers} containers of the pod ask for Neuron hardware, at most {MOST_CONTAINERS} are placed; \
                 ask in fewer of them"
            ),
            Refusal::NotEnough { resource, asked, free, total, beside, permanent } => {
                let noun = resource.noun();
                let too_small = if *permanent { "the node is too small" } else { "not enough free" };
                write!(f, "{too_small}: Neuron {noun}s asked {asked}")?;
                if *beside > 0 {
                    write!(f, " beside {}", Count(Resource::Device, *beside))?;
                }
                // For ever true, so nothing in it may change with what is free: it is told once.
                if *permanent {
                    write!(f, "; the node has {} in all", Count(*resource, *total))
                } else {
                    write!(f, ", free {free} of {total}")
                }
            }
            Refusal::NotLinked { container, resource, asked, free, largest } => {
                if let Some(container) = container {
                    write!(f, "container {container}: ")?;
                }
                let noun = resource.noun();
                write!(
                    f,
                    "no linked set of {asked} free Neuron {noun}s: {free} free, the largest linked set has {largest}"
                )
            }
            Refusal::NeverTogether { instance_type, container, resource, asked } => write!(
                f,
                "the pod's containers never fit together on {instance_type}: nothing is left for the {} of container {container}",
                Count(*resource, *asked)
            ),
            Refusal::Unhealthy { devices } => {
                let (devices_are, them) =
                    if devices.len() == 1 { ("device", "it was") } else { ("devices", "they were") };
                write!(f, "the pod would fit on unhealthy Neuron {devices_are} {devices} if {them} healthy")
            }
            Refusal::InitShape { container, resource, asked, handed_down, .. } => write!(
                f,
                "init container shape that kubelet could break: container {container} asks for {}, init \
                 containers hand down {handed_down}; ask for the same count or make the init container a sidecar",
                Count(*resource, *asked)
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
