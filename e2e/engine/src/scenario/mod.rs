//! The form of a scenario file: nodes, steps with the manifests that a user would write, and expectations. [`library`]
//! reads it, [`crate::run`] carries it out. Nothing here knows which cluster runs it.

mod catalog;
mod churn;
mod error;
mod expand;
mod expected;
mod faults;
mod hold;
pub mod library;
mod metrics;
mod node;
mod only;
mod part;
mod step;

use std::collections::BTreeMap;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;

pub use self::catalog::{CatalogFileError, CatalogSource};
pub use self::churn::Churn;
pub use self::error::ScenarioError;
pub use self::expected::{Expected, ExpectedSets};
pub use self::faults::{AllocatableStep, FaultsStep, KernelLogStep};
pub use self::hold::{Hold, Moment, Verb};
pub use self::metrics::{MetricsStep, Series};
pub use self::node::NodeSpec;
pub use self::only::Only;
pub use self::part::{DeviceState, Part};
pub use self::step::{DeviceStep, During, Patch, Preempt, Reboot, Step, Target, Unlisted};

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
    /// The instance types that it may name.
    #[serde(skip)]
    pub catalog: CatalogSource,
    /// What it shows, in one sentence.
    pub about: String,
    /// One to three nodes; in manifests, steps and documents they are n1, n2, n3 in this order.
    pub nodes: Vec<NodeSpec>,
    /// What is done, in order.
    pub steps: Vec<Step>,
    /// What each pod must have come to, by pod name. Pods that are not named are held to the invariants only.
    #[serde(default)]
    pub expect: BTreeMap<String, Expected>,
    /// Groups of pods with equal requests whose sets kubelet may swap: the document lists their outcomes in the order of
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
    ///
    /// # Errors
    /// The scenario has no such node.
    pub fn place_of(&self, node: &str) -> anyhow::Result<usize> {
        let number = node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok());
        let place = number.and_then(|number| number.checked_sub(1));
        place.filter(|place| *place < self.nodes.len()).with_context(|| {
            format!("{node:?} is not a node of this scenario; it has n1 to n{}", self.nodes.len())
        })
    }

    /// The manifests of every object that it applies, in order; those of steps inside a step come after the step's own.
    pub fn manifests(&self) -> impl Iterator<Item = &Value> {
        self.all_steps().into_iter().flat_map(|step| step.applies().0)
    }

    /// The names of pods that it deletes by force.
    pub fn force_deleted(&self) -> impl Iterator<Item = &str> {
        fn names(step: &Step) -> &[String] {
            match step {
                Step::ForceDelete(names) => names,
                Step::Churn(churn) => &churn.force_delete,
                _ => &[],
            }
        }
        self.all_steps().into_iter().flat_map(names).map(String::as_str)
    }

    /// Whether it needs two replicas of the extender, of which one leads: a step is about the one that does.
    pub fn needs_replicas(&self) -> bool {
        self.all_steps().into_iter().any(Step::needs_replicas)
    }

    /// Every step, each before the steps inside it.
    pub(crate) fn all_steps(&self) -> Vec<&Step> {
        fn collect<'s>(steps: &'s [Step], all: &mut Vec<&'s Step>) {
            for step in steps {
                all.push(step);
                collect(step.applies().1, all);
            }
        }
        let mut all = Vec::new();
        collect(&self.steps, &mut all);
        all
    }

    /// Whether the pod may be refused when it is applied: the scenario expects it to stay pending, says nothing of it,
    /// or waits for it in a later step.
    pub fn may_wait(&self, pod: &str) -> bool {
        let is_awaited = self.all_steps().into_iter().any(|step| match step {
            Step::Running(names) | Step::Ended(names) | Step::Bound(names) => {
                names.iter().any(|name| name == pod)
            }
            _ => false,
        });
        let expected = self.expect.get(pod).and_then(|expected| expected.phase.as_deref());
        is_awaited || expected.is_none_or(|phase| phase == "Pending")
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
    /// The word of the command line for it, such as `faults`.
    pub const fn name(self) -> &'static str {
        match self {
            Tier::Placement => "placement",
            Tier::Faults => "faults",
        }
    }
}
