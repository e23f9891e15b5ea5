//! What kubelet is told of hardware that is held under another name than it would be asked for. Followed by `report::upkeep`, listed
//! by `kubelet::service`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use neuron_core::ids::CoreSet;
use tokio::time::Instant;

use crate::allocation::engine::Engine;
use crate::hardware::machine::Machine;

/// What kubelet is told of ids whose hardware somebody holds under another name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CrossResource {
    /// Nothing: what it asks for is refused. The scheduler extender keeps the names apart.
    #[default]
    Refuse,
    /// They are unhealthy, and so not counted by kube-scheduler: for clusters without the extender.
    Withdraw,
}

impl fmt::Display for CrossResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CrossResource::Refuse => "refuse",
            CrossResource::Withdraw => "withdraw",
        })
    }
}

/// A text that is neither `refuse` nor `withdraw`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not what can become of ids that are held under another name; use refuse or withdraw")]
pub struct CrossResourceError(String);

impl FromStr for CrossResource {
    type Err = CrossResourceError;

    fn from_str(text: &str) -> Result<Self, CrossResourceError> {
        match text {
            "refuse" => Ok(CrossResource::Refuse),
            "withdraw" => Ok(CrossResource::Withdraw),
            _ => Err(CrossResourceError(text.to_owned())),
        }
    }
}

/// The cores that are held under another name, by the name that they are withdrawn from; nothing with [`CrossResource::Refuse`].
pub type Withdrawn = BTreeMap<&'static str, CoreSet>;

impl Engine {
    /// Follows what is held under other names, as far as kubelet has written it down. Before, a list that changes can cost kubelet an
    /// entry of its checkpoint (docs/reference/kubernetes.md §7), and what it asks for meanwhile is refused.
    pub fn withdraw(&self, machine: &Machine) {
        if self.cross_resource == CrossResource::Refuse {
            return;
        }
        let withdrawn: Withdrawn = {
            let (state, slots) = self.current(machine);
            let held = |name| (name, state.ledger.held_under_others(&slots, name));
            self.resources.iter().map(|resource| held(resource.name)).collect()
        };
        self.withdrawn.send_if_modified(|before| {
            let is_news = *before != withdrawn;
            *before = withdrawn;
            is_news
        });
    }

    /// When to follow it again though nobody tells of a change.
    pub fn withdraw_again_at(&self) -> Option<Instant> {
        let is_on = self.cross_resource == CrossResource::Withdraw;
        is_on.then(|| self.state().ledger.just_given_until(Instant::now())).flatten()
    }

    /// The cores that are withdrawn from a name now.
    pub fn withdrawn_from(&self, name: &str) -> CoreSet {
        self.withdrawn.borrow().get(name).copied().unwrap_or_default()
    }
}
