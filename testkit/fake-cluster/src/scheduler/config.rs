//! What a cluster operator writes in `KubeSchedulerConfiguration`: the scheduler's name and its extenders.

use std::collections::BTreeSet;
use std::time::Duration;

/// One scheduler: its name, its extenders in the order they are asked, and the seed of its free choices.
#[derive(Clone, Debug)]
pub struct SchedulerConfig {
    /// Pods whose `spec.schedulerName` is this are scheduled; all others are left alone.
    pub name: String,
    /// Asked one after another, in this order.
    pub extenders: Vec<ExtenderConfig>,
    /// Decides among nodes of equal score. The same seed, pod name and nodes give the same choice.
    pub seed: u64,
}

/// One entry of `extenders[]`, as in `kubescheduler.config.k8s.io/v1` (docs/reference/kubernetes.md §1).
#[derive(Clone, Debug)]
pub struct ExtenderConfig {
    /// Base address without the verb, plain HTTP: `http://127.0.0.1:12345`.
    pub url_prefix: String,
    /// Path of the filter call under the prefix; `None`: not asked.
    pub filter_verb: Option<String>,
    /// Path of the prioritize call under the prefix; `None`: not asked.
    pub prioritize_verb: Option<String>,
    /// Path of the bind call under the prefix; `None`: this extender does not bind.
    pub bind_verb: Option<String>,
    /// Factor of this extender's scores; kube-scheduler asks for a positive one.
    pub weight: i64,
    /// `true` sends and reads node names, `false` whole nodes.
    pub node_cache_capable: bool,
    /// The extender is asked only about pods that ask for one of these. Empty: about every pod.
    pub managed_resources: Vec<ManagedResource>,
    /// `true`: its errors do not fail the pod. A trap together with a bind verb (docs/reference/kubernetes.md §1).
    pub ignorable: bool,
    /// Limit of one call in real time; zero means kube-scheduler's default of 5 s.
    pub http_timeout: Duration,
}

impl ExtenderConfig {
    /// An extender at `url_prefix` with no verb, weight 1, names only, asked about every pod, 5 s a call.
    pub fn new(url_prefix: impl Into<String>) -> Self {
        Self {
            url_prefix: url_prefix.into(),
            filter_verb: None,
            prioritize_verb: None,
            bind_verb: None,
            weight: 1,
            node_cache_capable: true,
            managed_resources: Vec::new(),
            ignorable: false,
            http_timeout: Duration::from_secs(5),
        }
    }
}

/// One entry of `managedResources[]`.
#[derive(Clone, Debug)]
pub struct ManagedResource {
    /// Resource name, such as `example.com/device`.
    pub name: String,
    /// `true`: NodeResourcesFit leaves this resource to the extender.
    pub ignored_by_scheduler: bool,
}

impl SchedulerConfig {
    /// The resources that NodeResourcesFit does not look at, over all extenders.
    pub(super) fn ignored_resources(&self) -> BTreeSet<String> {
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        managed
            .filter(|resource| resource.ignored_by_scheduler)
            .map(|resource| resource.name.clone())
            .collect()
    }
}
