//! A scenario as its file says it: nodes, steps with the manifests a user would write, and what must come of it.
//! Read by [`crate::library`], carried out by [`crate::run`]. Nothing here knows which cluster runs it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// One scenario, after `for_each` and `repeat` are written out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// File name without `.yaml`, and the entry of `for_each` behind a slash: `every-type/trn1.32xlarge`.
    #[serde(skip)]
    pub name: String,
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
}

impl Scenario {
    /// Whether the pod may be refused when it is applied: the scenario expects it to stay pending, says nothing of it,
    /// or waits for it in a later step.
    pub fn may_wait(&self, pod: &str) -> bool {
        fn awaited(steps: &[Step], pod: &str) -> bool {
            steps.iter().any(|step| match step {
                Step::Running(names) | Step::Ended(names) | Step::Bound(names) => {
                    names.iter().any(|name| name == pod)
                }
                Step::Hold(hold) => awaited(&hold.steps, pod),
                _ => false,
            })
        }
        let expected = self.expect.get(pod).and_then(|expected| expected.phase.as_deref());
        expected.is_none_or(|phase| phase == "Pending") || awaited(&self.steps, pod)
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

/// One step. Each waits until what it did is visible before the next begins.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Creates objects one after another, each waiting until its pod runs, has ended or is refused.
    Apply(Vec<Value>),
    /// Creates all objects at once, then waits for all of them.
    ApplyTogether(Vec<Value>),
    /// Creates objects which the API server itself refuses: the text of the refusal is kept for the document.
    Refused(Vec<Value>),
    /// Deletes pods and waits until they are gone. The document shows them as they were before.
    Delete(Vec<String>),
    /// Waits until these pods have ended (Succeeded or Failed).
    Ended(Vec<String>),
    /// Waits until these pods run.
    Running(Vec<String>),
    /// Waits until these pods are bound to a node.
    Bound(Vec<String>),
    /// Merges a patch into a pod, as its author could.
    Patch(Patch),
    /// Merges a patch into a node, as an administrator could.
    PatchNode(Patch),
    /// Stops and starts a part of the suite or of Kubernetes.
    Restart(Target),
    /// Stops a part; `start` brings it back.
    Stop(Target),
    /// Starts a part that was stopped.
    Start(Target),
    /// Does something to a node's hardware.
    Device(DeviceStep),
    /// Applies pods, holds the scheduler's call before it reaches the extender, carries the inner steps out,
    /// then lets the call go on.
    Hold(Hold),
}

impl Step {
    /// The step's name in its file.
    pub fn label(&self) -> &'static str {
        match self {
            Step::Apply(_) => "apply",
            Step::ApplyTogether(_) => "apply-together",
            Step::Refused(_) => "refused",
            Step::Delete(_) => "delete",
            Step::Ended(_) => "ended",
            Step::Running(_) => "running",
            Step::Bound(_) => "bound",
            Step::Patch(_) => "patch",
            Step::PatchNode(_) => "patch-node",
            Step::Restart(_) => "restart",
            Step::Stop(_) => "stop",
            Step::Start(_) => "start",
            Step::Device(_) => "device",
            Step::Hold(_) => "hold",
        }
    }
}

/// A merge patch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Patch {
    /// Name of the pod or node.
    pub name: String,
    /// JSON merge patch.
    pub patch: Value,
}

/// A part that can be stopped and started.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// Which part.
    pub part: Part,
    /// The node it runs on, for parts that run on every node; n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
}

fn first_node() -> String {
    "n1".into()
}

/// The parts of the suite and of Kubernetes that scenarios stop and start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The scheduler extender.
    Extender,
    /// A node's device plugin.
    Plugin,
    /// A node's kubelet; containers go on.
    Kubelet,
    /// The scheduler that the pods name.
    Scheduler,
}

/// What happens to a device.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceStep {
    /// The node, n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
    /// The device's id on its host.
    pub device: u8,
    /// Its new state.
    pub becomes: DeviceState,
}

/// States that a scenario can put a device in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceState {
    /// Reports a broken component.
    Unhealthy,
    /// Works again.
    Healthy,
    /// Its files are gone.
    Lost,
}

/// A call that is held.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hold {
    /// The extender verb that waits: `filter` or `bind`.
    pub before: Verb,
    /// What is applied first; its call is the one held.
    pub apply: Vec<Value>,
    /// What happens meanwhile.
    #[serde(rename = "meanwhile")]
    pub steps: Vec<Step>,
}

/// Extender verbs that can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verb {
    /// `POST /filter`.
    Filter,
    /// `POST /bind`.
    Bind,
}

impl Verb {
    /// The last part of the path it is posted to.
    pub const fn path(self) -> &'static str {
        match self {
            Verb::Filter => "filter",
            Verb::Bind => "bind",
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
