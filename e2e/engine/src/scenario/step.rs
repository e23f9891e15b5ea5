//! The steps of a scenario, as its file writes them. Carried out by [`crate::run`]; nothing here knows which cluster runs
//! them.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::churn::Churn;
use super::faults::{AllocatableStep, FaultsStep, KernelLogStep};
use super::hold::Hold;
use super::metrics::MetricsStep;
use super::part::{DeviceState, Part};

/// Steps that have another name than they had in files of before: the old one and the new one.
const RENAMED: [(&str, &str); 2] = [("amid", "during"), ("pass", "advance-clock")];

/// One step. Each waits until its effect is visible before the next begins.
#[derive(Clone, Debug, Deserialize)]
// Derives an inherent function; the trait's, below, first looks for names that steps no longer have.
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Step {
    /// Creates objects one after another, each waiting until its pod runs, has ended or is refused.
    Apply(Vec<Value>),
    /// Creates all objects at once, then waits for all of them.
    ApplyTogether(Vec<Value>),
    /// Creates objects which the API server itself refuses: the text of the refusal is kept for the document.
    Refused(Vec<Value>),
    /// Creates objects of the whole cluster, such as a DeviceClass, or takes over those that are there. The run removes
    /// them at its end.
    Create(Vec<Value>),
    /// Deletes pods and waits until they are gone. The document shows them as they were before.
    Delete(Vec<String>),
    /// Deletes pods with grace 0, as an administrator does who cannot wait for a node that is away. Where the node is there, what their
    /// containers have got is read first.
    ForceDelete(Vec<String>),
    /// Waits until these pods have ended (Succeeded or Failed).
    Ended(Vec<String>),
    /// Waits until these pods run. One that has failed never will, which fails the scenario.
    Running(Vec<String>),
    /// Waits until these pods are bound to a node.
    Bound(Vec<String>),
    /// Creates a pod for which kube-scheduler ends others: waits until those are gone and it runs. The document shows them as they
    /// were before.
    Preempt(Preempt),
    /// Merges a patch into a pod, as its author could.
    Patch(Patch),
    /// Merges a patch into a node, as an administrator could.
    PatchNode(Patch),
    /// Stops and starts a part of the suite or of Kubernetes; extender and plugin are killed, so that they cannot tidy up. Where it is
    /// the extender that leads, another one leads afterwards.
    Restart(Target),
    /// Stops a part; `start` brings it back.
    Stop(Target),
    /// Starts a part that was stopped.
    Start(Target),
    /// Breaks or heals a device of a node.
    Device(DeviceStep),
    /// Makes exactly these faults be in force on a node's hardware; those of an earlier step that are not among them are lifted.
    Faults(FaultsStep),
    /// Waits until a node offers so many devices and cores, and looks whether it stays so.
    Allocatable(AllocatableStep),
    /// Waits until the kernel log of a node's hardware holds a text, written since the last step `faults`.
    KernelLog(KernelLogStep),
    /// Waits until a counter of our programs has counted so much since the scenario began.
    Metrics(MetricsStep),
    /// Applies pods, holds the scheduler's call before it reaches the extender, the extender's answer before it reaches the
    /// scheduler, or its Binding before the API server carries it out; carries the inner steps out, then lets it go on.
    Hold(Hold),
    /// Carries steps out while pods are being placed.
    During(During),
    /// Lets pods come and go by chance while parts are killed.
    Churn(Churn),
    /// Restarts a node.
    Reboot(Reboot),
    /// Restarts a node's plugin so that one dies between its registration and the first list that kubelet reads.
    RestartUnlisted(Unlisted),
    /// Lets this many seconds of the cluster's time pass, in which nothing should happen.
    AdvanceClock(u64),
}

impl<'de> Deserialize<'de> for Step {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let step = Value::deserialize(deserializer)?;
        let renamed = RENAMED.iter().find(|(old, _)| step.get(old).is_some());
        if let Some((old, new)) = renamed {
            return Err(D::Error::custom(format!("step `{old}` is called `{new}` now")));
        }
        // The inherent function, which the derive has made.
        Step::deserialize(step).map_err(D::Error::custom)
    }
}

impl Step {
    /// The objects that it applies, and the steps that it carries out meanwhile.
    pub fn applies(&self) -> (&[Value], &[Step]) {
        match self {
            Step::Apply(manifests) | Step::ApplyTogether(manifests) => (manifests, &[]),
            Step::Hold(hold) => (&hold.apply, &hold.steps),
            Step::During(during) => (&during.apply, &during.steps),
            Step::Churn(churn) => (&churn.pods, &[]),
            Step::Preempt(preempt) => (std::slice::from_ref(&preempt.apply), &[]),
            _ => (&[], &[]),
        }
    }

    /// Whether it is about one of two replicas of the extender. Steps inside it are not looked at.
    pub(super) fn needs_replicas(&self) -> bool {
        let is_leader = |target: &Target| target.part == Part::ExtenderLeader;
        match self {
            Step::Restart(target) | Step::Stop(target) | Step::Start(target) => is_leader(target),
            Step::Churn(churn) => churn.kill.iter().any(is_leader),
            _ => false,
        }
    }

    /// Its name in a scenario file.
    pub fn name(&self) -> &'static str {
        match self {
            Step::Apply(_) => "apply",
            Step::ApplyTogether(_) => "apply-together",
            Step::Refused(_) => "refused",
            Step::Create(_) => "create",
            Step::Delete(_) => "delete",
            Step::Ended(_) => "ended",
            Step::Running(_) => "running",
            Step::Bound(_) => "bound",
            Step::Preempt(_) => "preempt",
            Step::Patch(_) => "patch",
            Step::PatchNode(_) => "patch-node",
            Step::Restart(_) => "restart",
            Step::Stop(_) => "stop",
            Step::Start(_) => "start",
            Step::Device(_) => "device",
            Step::Faults(_) => "faults",
            Step::Allocatable(_) => "allocatable",
            Step::KernelLog(_) => "kernel-log",
            Step::Metrics(_) => "metrics",
            Step::Hold(_) => "hold",
            Step::ForceDelete(_) => "force-delete",
            Step::During(_) => "during",
            Step::Churn(_) => "churn",
            Step::Reboot(_) => "reboot",
            Step::RestartUnlisted(_) => "restart-unlisted",
            Step::AdvanceClock(_) => "advance-clock",
        }
    }
}

/// A pod, and those that are ended for it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preempt {
    /// The pod, of a higher priority.
    pub apply: Value,
    /// Names of the pods that are ended, all of them and no others.
    pub ends: Vec<String>,
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

/// The node of a step that names none.
pub(super) fn first_node() -> String {
    "n1".into()
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
    /// The state that it has afterwards.
    pub becomes: DeviceState,
}

/// Steps in the middle of a placement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct During {
    /// Pods that are created one after another, without waiting. The last quarter is held back until the steps begin,
    /// so that they always fall among pods that are bound and pods that are not.
    pub apply: Vec<Value>,
    /// How many of them must be bound before the steps begin.
    pub bound: usize,
    /// What happens meanwhile.
    pub steps: Vec<Step>,
}

impl During {
    /// The pods that are created before the steps begin, those created meanwhile, and those created when they are done.
    pub fn groups(&self) -> [&[Value]; 3] {
        let (first, others) = self.apply.split_at(self.apply.len() - self.apply.len() / 4);
        let (meanwhile, last) = others.split_at(others.len() / 2);
        [first, meanwhile, last]
    }
}

/// A node that goes down with everything on it and comes back.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reboot {
    /// The node, n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
    /// Whether the files of the hardware are gone too: drivers make them anew when a machine boots.
    #[serde(default)]
    pub hardware_anew: bool,
}

/// The node whose plugin dies between registration and list.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Unlisted {
    /// The node, n1 if not given.
    #[serde(default = "first_node")]
    pub node: String,
}
