//! How everything is from the beginning of a plan on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Settings of a simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Settings {
    /// Shortest and longest time of a message between hosts, in milliseconds.
    pub link_milliseconds: (u32, u32),
    /// Share of messages that are lost and sent again, 0 to 1.
    pub link_loss: f64,
    /// Shortest and longest time of a message over a Unix socket, as kubelet and a device plugin talk, in milliseconds.
    #[serde(default)]
    pub socket_milliseconds: (u32, u32),
    /// How often the API server's answers to the suite's programs go wrong.
    pub api: ApiRates,
    /// How often its answers to kubelets, scheduler and controllers do.
    #[serde(default)]
    pub cluster_api: ApiRates,
    /// Shortest and longest time until a part that was killed is started again, in milliseconds.
    pub restart_milliseconds: (u32, u32),
    /// Whether tasks that are ready at one instant are polled in an order of the seed, not by their age.
    pub seeded_order: bool,
    /// How long after a change kubelets write a node's status, in seconds.
    pub status_seconds: u32,
    /// Whether kubelets take the worst of what Kubernetes leaves open.
    pub adversarial: bool,
    /// The programs' own settings, as the suite calls them: time-outs in milliseconds, or in seconds where the name ends so, and
    /// switches, 0 or 1.
    pub programs: BTreeMap<String, u64>,
}

/// How often an answer of the API server goes wrong, each 0 to 1, of all requests of those whose rates they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ApiRates {
    /// 409 in place of a write.
    pub conflict: f64,
    /// 410 in place of a watch or a list.
    pub gone: f64,
    /// 429 in place of anything.
    pub too_many: f64,
    /// 500 in place of anything.
    pub internal: f64,
    /// 504 after the request was carried out.
    pub timeout: f64,
    /// The connection breaks after the request was carried out.
    pub lost: f64,
    /// The connection breaks before the request is carried out.
    pub refused: f64,
    /// A list or the beginning of a watch shows an older state.
    pub stale: f64,
    /// A watch ends early.
    pub short_watch: f64,
}

impl Default for Settings {
    /// Fast, and nothing goes wrong.
    fn default() -> Self {
        Self {
            link_milliseconds: (0, 2),
            link_loss: 0.0,
            socket_milliseconds: (0, 0),
            api: ApiRates::default(),
            cluster_api: ApiRates::default(),
            restart_milliseconds: (1000, 3000),
            seeded_order: true,
            status_seconds: 10,
            adversarial: false,
            programs: BTreeMap::new(),
        }
    }
}

impl Settings {
    /// What is wrong with them, if anything is.
    pub(super) fn problem(&self) -> Option<String> {
        let both = self.api.named().into_iter().chain(self.cluster_api.named());
        let rates = [("linkLoss", self.link_loss)].into_iter().chain(both);
        let wrong = rates.into_iter().find(|(_, rate)| !(0.0..=1.0).contains(rate));
        if let Some((name, rate)) = wrong {
            return Some(format!("settings: {name} is {rate}; a rate is 0 to 1"));
        }
        let ranges = [
            ("linkMilliseconds", self.link_milliseconds),
            ("socketMilliseconds", self.socket_milliseconds),
            ("restartMilliseconds", self.restart_milliseconds),
        ];
        let wrong = ranges.into_iter().find(|(_, (shortest, longest))| shortest > longest);
        wrong.map(|(name, (shortest, longest))| {
            format!("settings: {name} is from {shortest} to {longest}; the first must not be larger")
        })
    }
}

impl ApiRates {
    /// Each with its name in a file.
    pub(super) fn named(&self) -> [(&'static str, f64); 9] {
        [
            ("conflict", self.conflict),
            ("gone", self.gone),
            ("tooMany", self.too_many),
            ("internal", self.internal),
            ("timeout", self.timeout),
            ("lost", self.lost),
            ("refused", self.refused),
            ("stale", self.stale),
            ("shortWatch", self.short_watch),
        ]
    }
}
