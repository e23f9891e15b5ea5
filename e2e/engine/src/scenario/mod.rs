//! A scenario as its file says it: nodes, steps with the manifests a user would write, and what must come of it.
//! Read by [`crate::scenario::library`], carried out by [`crate::run`]. Nothing here knows which cluster runs it.

pub mod library;
pub mod step;

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;

pub use crate::scenario::step::{
    Amid, DeviceState, DeviceStep, Hold, Moment, Part, Patch, Reboot, Step, Target, Unlisted, Verb,
};

/// One scenario, after `for_each` and `repeat` are written out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// File name without `.yaml`, and the entry of `for_each` behind a slash: `every-type/trn1.32xlarge`.
    #[serde(skip)]
    pub name: String,
    /// The tier it belongs to: the folder its file is in.
    #[serde(skip)]
    pub tier: Tier,
    /// What it shows, in one sentence.
    pub about: String,
    /// One to three nodes; in manifests, steps and documents they are n1, n2, n3 in this order.
    pub nodes: Vec<NodeSpec>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What each pod must have come to, by pod name. Pods that are not named are held to the invariants only.
    #[serde(default)]
    pub expect: BTreeMap<String, Expected>,
    /// Groups of pods of equal shape whose sets kubelet may swap: the document lists their outcomes in the order of
    /// their sets, not by pod.
    #[serde(default)]
    pub interchangeable: Vec<Vec<String>>,
    /// Why two runs may differ (a free choice of kubelet, concurrent steps): only the invariants are compared.
    #[serde(default)]
    pub invariants_only: Option<String>,
    /// Set where one kind of cluster cannot run it.
    #[serde(default)]
    pub only: Option<Only>,
    /// Words of kubelet with which pods may fail that `expect` does not name: what kubelet does of itself when this
    /// happens to a node. In the fault tier no other pod may fail.
    #[serde(default)]
    pub kubelet_may_say: Vec<String>,
}

impl Scenario {
    /// The place of n1, n2, n3 in the scenario, 0 for n1.
    pub fn place_of(&self, node: &str) -> anyhow::Result<usize> {
        let number = node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
        let place = number.and_then(|number| number.checked_sub(1));
        place.filter(|place| *place < self.nodes.len()).with_context(|| {
            format!("{node:?} is not a node of this scenario; it has n1 to n{}", self.nodes.len())
        })
    }

    /// Whether the pod may be refused when it is applied: the scenario expects it to stay pending, says nothing of it,
    /// or waits for it in a later step.
    pub fn may_wait(&self, pod: &str) -> bool {
        fn awaited(steps: &[Step], pod: &str) -> bool {
            steps.iter().any(|step| match step {
                Step::Running(names) | Step::Ended(names) | Step::Bound(names) => {
                    names.iter().any(|name| name == pod)
                }
                Step::Hold(hold) => awaited(&hold.steps, pod),
                Step::Amid(amid) => awaited(&amid.steps, pod),
                _ => false,
            })
        }
        let expected = self.expect.get(pod).and_then(|expected| expected.phase.as_deref());
        expected.is_none_or(|phase| phase == "Pending") || awaited(&self.steps, pod)
    }
}

/// What a scenario is about; a run takes one tier or all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tier {
    /// Where pods are placed and what they get (`scenarios/`).
    #[default]
    Placement,
    /// What breaks and comes back meanwhile (`scenarios/faults/`).
    Faults,
}

impl Tier {
    /// As the command line writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Placement => "placement",
            Tier::Faults => "faults",
        }
    }
}

/// A scenario that only one kind of cluster can run.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Only {
    /// `embedded` or `kind`.
    pub cluster: String,
    /// Why the other cannot.
    pub because: String,
}

/// A node and its fake hardware.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodeSpec {
    /// Instance type of the hardware: what DMI says.
    #[serde(rename = "type")]
    pub instance_type: String,
    /// Physical cores per logical core, 1 or 2; the type's default if not given.
    #[serde(default)]
    pub lnc: Option<u8>,
    /// What the node's instance-type label says; the hardware's type if not given, no label if empty.
    #[serde(default)]
    pub label: Option<String>,
    /// Files below the machine's root that are replaced before the plugin starts (path: text; null removes it).
    #[serde(default)]
    pub files: BTreeMap<String, Option<String>>,
    /// A node on which no device plugin runs.
    #[serde(default)]
    pub without_plugin: bool,
}

impl NodeSpec {
    /// A node of this type, with nothing out of the ordinary.
    pub fn of(instance_type: &str) -> Self {
        Self {
            instance_type: instance_type.to_owned(),
            lnc: None,
            label: None,
            files: BTreeMap::new(),
            without_plugin: false,
        }
    }
}

/// What a pod must have come to.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// `Running`, `Pending`, `Succeeded` or `Failed`; `Refused` where the API server refuses the manifest.
    #[serde(default)]
    pub phase: Option<String>,
    /// n1, n2 or n3.
    #[serde(default)]
    pub node: Option<String>,
    /// By container: the sets it really got.
    #[serde(default)]
    pub got: BTreeMap<String, ExpectedSets>,
    /// Text that the last FailedScheduling event, the failure message or the API server's refusal contains.
    #[serde(default)]
    pub refusal: Option<String>,
    /// Text that one of our own events on the pod contains.
    #[serde(default)]
    pub event: Option<String>,
}

/// What a container must have got. A field that is not given must be absent in the container too.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpectedSets {
    /// `NEURON_RT_VISIBLE_CORES`.
    #[serde(default)]
    pub cores: Option<String>,
    /// `AWS_NEURON_VISIBLE_DEVICES`.
    #[serde(default)]
    pub devices: Option<String>,
    /// The device nodes, as numbers: `/dev/neuron1` is `1`.
    #[serde(default)]
    pub nodes: Option<String>,
}
