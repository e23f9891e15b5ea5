//! The step `churn`: pods come and go by chance while parts are killed. Part of the scenario file's form; carried out by
//! [`crate::run`].

use std::num::{NonZeroU64, NonZeroUsize};

use serde::Deserialize;
use serde_json::Value;

use super::Target;

/// Pods that come and go while parts are killed.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Churn {
    /// Decides in which order the pods come, and when those of `force-delete` go.
    pub seed: u64,
    /// How many pods there are at one time, at most.
    pub at_once: NonZeroUsize,
    /// Seconds of the cluster's time from one kill to the next.
    pub kill_every: NonZeroU64,
    /// What is killed, in turn: what keeps these parts running starts them again, and nobody waits for it before all pods are gone.
    pub kill: Vec<Target>,
    /// The pods. Those that are named nowhere below end by themselves, and are removed then.
    pub pods: Vec<Value>,
    /// Names of pods that are deleted once they run.
    #[serde(default)]
    pub delete: Vec<String>,
    /// Names of pods that are deleted by force within seconds, whatever they have come to.
    #[serde(default)]
    pub force_delete: Vec<String>,
}

impl Churn {
    /// What is wrong with the names of pods that go, if anything is.
    pub(super) fn wrong_name(&self) -> Option<String> {
        let names: Vec<&str> = self.pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str()).collect();
        let unknown =
            self.delete.iter().chain(&self.force_delete).find(|name| !names.contains(&name.as_str()));
        if let Some(name) = unknown {
            return Some(format!("churn is to delete pod {name}, and has none of this name"));
        }
        let twice = self.delete.iter().find(|name| self.force_delete.contains(name))?;
        Some(format!("churn is to delete pod {twice} and to delete it by force; name it once"))
    }
}
