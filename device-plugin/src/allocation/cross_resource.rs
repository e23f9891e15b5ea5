//! Whether kubelet is told of hardware that is held under another name. A setting of [`crate::Config`]; carried out by `withdraw`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use neuron_core::ids::CoreSet;

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
