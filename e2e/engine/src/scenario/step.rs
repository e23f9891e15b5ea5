//! The steps of a scenario, as its file writes them. Carried out by [`crate::run`] and [`crate::FAULTS`]; nothing here
//! knows which cluster runs it.

use std::fmt;

use serde::Deserialize;
use serde_json::Value;

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
    /// Deletes pods with grace 0, as an administrator does who cannot wait for a node that is away.
    ForceDelete(Vec<String>),
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
    /// Stops and starts a part of the suite or of Kubernetes; extender and plugin are killed, so that they cannot tidy up.
    Restart(Target),
    /// Stops a part; `start` brings it back.
    Stop(Target),
    /// Starts a part that was stopped.
    Start(Target),
    /// Does something to a node's hardware.
    Device(DeviceStep),
    /// Applies pods, holds the scheduler's call before it reaches the extender, or the extender's answer before it
    /// reaches the scheduler, carries the inner steps out, then lets it go on.
    Hold(Hold),
    /// Carries steps out while pods are being placed.
    Amid(Amid),
    /// Restarts a node.
    Reboot(Reboot),
    /// Restarts a node's plugin so that one dies between its registration and the first list that kubelet reads.
    RestartUnlisted(Unlisted),
    /// Lets this many seconds of the cluster's time pass: what happens is that nothing happens.
    Pass(u64),
}

impl Step {
    /// The objects that it applies, and the steps that it carries out meanwhile.
    pub fn applies(&self) -> (&[Value], &[Step]) {
        match self {
            Step::Apply(manifests) | Step::ApplyTogether(manifests) => (manifests, &[]),
            Step::Hold(hold) => (&hold.apply, &hold.steps),
            Step::Amid(amid) => (&amid.apply, &amid.steps),
            _ => (&[], &[]),
        }
    }

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
            Step::ForceDelete(_) => "force-delete",
            Step::Amid(_) => "amid",
            Step::Reboot(_) => "reboot",
            Step::RestartUnlisted(_) => "restart-unlisted",
            Step::Pass(_) => "pass",
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
    /// A whole node: while it is stopped nothing on it moves and nobody reaches it; then all of it goes on.
    Node,
    /// The scheduler that the pods name.
    Scheduler,
    /// A node's container runtime; it can be restarted, not stopped.
    Containerd,
    /// The API server.
    ApiServer,
    /// What the API server keeps everything in; it can be restarted, not stopped.
    Etcd,
}

impl Part {
    /// As scenario files write it.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Extender => "extender",
            Part::Plugin => "plugin",
            Part::Kubelet => "kubelet",
            Part::Node => "node",
            Part::Scheduler => "scheduler",
            Part::Containerd => "containerd",
            Part::ApiServer => "api-server",
            Part::Etcd => "etcd",
        }
    }
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
#[serde(try_from = "HoldFields")]
pub struct Hold {
    /// Where it is held.
    pub at: Moment,
    /// What is applied first; its call is the one held.
    pub apply: Vec<Value>,
    /// What happens meanwhile.
    pub steps: Vec<Step>,
}

/// Where a call between scheduler and extender can be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Moment {
    /// Before it reaches the extender.
    Before(Verb),
    /// After the extender has done what it asks, before the scheduler hears so. An extender that ends meanwhile
    /// has never answered.
    After(Verb),
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Moment::Before(verb) => write!(f, "before {}", verb.path()),
            Moment::After(verb) => write!(f, "after {}", verb.path()),
        }
    }
}

impl Moment {
    /// Every moment.
    pub const ALL: [Moment; 4] = [
        Moment::Before(Verb::Filter),
        Moment::Before(Verb::Bind),
        Moment::After(Verb::Filter),
        Moment::After(Verb::Bind),
    ];
}

/// A [`Hold`] as its file writes it: `before: bind` or `after: bind`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HoldFields {
    #[serde(default)]
    before: Option<Verb>,
    #[serde(default)]
    after: Option<Verb>,
    apply: Vec<Value>,
    meanwhile: Vec<Step>,
}

impl TryFrom<HoldFields> for Hold {
    type Error = &'static str;

    fn try_from(fields: HoldFields) -> Result<Self, Self::Error> {
        let HoldFields { before, after, apply, meanwhile: steps } = fields;
        let at = match (before, after) {
            (Some(verb), None) => Moment::Before(verb),
            (None, Some(verb)) => Moment::After(verb),
            _ => return Err("a hold is either `before` or `after` filter or bind"),
        };
        Ok(Hold { at, apply, steps })
    }
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

/// Steps in the middle of a placement.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Amid {
    /// Pods that are created one after another, without waiting. The last quarter is held back until the steps begin,
    /// so that they always fall among pods that are bound and pods that are not.
    pub apply: Vec<Value>,
    /// How many of them must be bound before the steps begin.
    pub bound: usize,
    /// What happens meanwhile.
    pub steps: Vec<Step>,
}

impl Amid {
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
