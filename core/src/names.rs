//! The names of resources, annotations, labels and container variables (docs/architecture.md §3). Every crate takes
//! them from here, so that a name is written once.

/// Extended resource that counts Neuron devices.
pub const NEURON: &str = "aws.amazon.com/neuron";
/// Extended resource that counts *logical* NeuronCores (physical cores divided by LNC).
pub const NEURONCORE: &str = "aws.amazon.com/neuroncore";
/// The old name of [`NEURON`]; AWS dropped it in 2024, manifests in the field still carry it
/// (docs/reference/neuron.md §3.4).
pub const NEURONDEVICE: &str = "aws.amazon.com/neurondevice";

/// The full names under which devices and cores are requested.
pub const RESOURCE_NAMES: [&str; 3] = [NEURON, NEURONCORE, NEURONDEVICE];

/// Pod annotation with the allocation record, the only key this project decides from.
pub const ALLOCATION: &str = "neuron-scheduler/allocation";
/// Pod annotation of the documented flow: the pod's core ids.
pub const NEURON_CORES: &str = "NEURON_CORES";
/// Pod annotation of the documented flow: the pod's device ids.
pub const NEURON_DEVS: &str = "NEURON_DEVS";
/// Pod annotation of AWS' extension: device ids, or core ids for core requests.
pub const AWS_NEURON_IDS: &str = "AWS_NEURON_IDS";
/// Pod annotation of AWS' extension: `false` at bind, `true` once the plugin allocated.
pub const NEURON_ALLOCATED: &str = "NEURON_ALLOCATED";
/// Pod annotation of AWS' extension: time of the bind, nanoseconds since 1970.
pub const NEURON_ALLOC_TIME: &str = "NEURON_ALLOC_TIME";
/// Pod annotation of AWS' extension: the resource name that the ids belong to.
pub const NEURON_RESOURCE_TYPE: &str = "NEURON_RESOURCE_TYPE";
/// Every pod annotation above: what is written at bind, and all that is read of a pod.
pub const POD_ANNOTATIONS: [&str; 7] = [
    ALLOCATION,
    NEURON_CORES,
    NEURON_DEVS,
    AWS_NEURON_IDS,
    NEURON_ALLOCATED,
    NEURON_ALLOC_TIME,
    NEURON_RESOURCE_TYPE,
];
/// Pod annotation of its author: the device models that the pod may run on.
pub const DEVICE_MODEL: &str = "neuron-scheduler/device-model";
/// Node annotation with the plugin's report of devices and holders.
pub const NODE_REPORT: &str = "neuron-scheduler/devices";
/// Lease by which a node's plugin says that it lives, with `-` and the node's name after it.
pub const PLUGIN_LEASE: &str = "neuron-device-plugin";

/// Pod label of the extender that leads, `true`: the Service selects it.
pub const LEADER_LABEL: &str = "neuron-scheduler/leader";

/// Node label that says the instance type.
pub const INSTANCE_TYPE_LABEL: &str = "node.kubernetes.io/instance-type";

/// Container variable that names the visible logical cores, as a comma list (ranges break Ray;
/// docs/reference/neuron.md §3.4).
pub const VISIBLE_CORES: &str = "NEURON_RT_VISIBLE_CORES";
/// Container variable that names the visible devices, as a comma list.
pub const VISIBLE_DEVICES: &str = "AWS_NEURON_VISIBLE_DEVICES";

/// Container variable that says the node's LNC to the runtime, 1 or 2.
pub const LOGICAL_CORE_CONFIG: &str = "NEURON_LOGICAL_NC_CONFIG";

/// The two resources under which the same hardware can be requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// Whole devices: [`NEURON`].
    Device,
    /// Logical cores: [`NEURONCORE`].
    Core,
}

impl Resource {
    /// Both resources, devices first: the order in which ids are compared and printed.
    pub const ALL: [Resource; 2] = [Resource::Device, Resource::Core];

    /// The resource that this full name stands for, the old name of devices too.
    pub fn named(name: &str) -> Option<Resource> {
        match name {
            NEURON | NEURONDEVICE => Some(Resource::Device),
            NEURONCORE => Some(Resource::Core),
            _ => None,
        }
    }

    /// The extended resource's full name.
    pub const fn name(self) -> &'static str {
        match self {
            Resource::Device => NEURON,
            Resource::Core => NEURONCORE,
        }
    }

    /// The word the documented texts use: `device` or `core`.
    pub const fn noun(self) -> &'static str {
        match self {
            Resource::Device => "device",
            Resource::Core => "core",
        }
    }
}
