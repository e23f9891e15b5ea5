//! What a cluster operator writes in `KubeSchedulerConfiguration`: the scheduler's name and its extenders.

use std::collections::BTreeSet;
use std::time::Duration;

use axum::Router;
use k8s_openapi::api::core::v1::{Node, Pod};

use super::extender::in_process::filter_router;

/// One scheduler: its name, its extenders, and the seed of its free choices.
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
    /// Where the extender is reached.
    pub server: ExtenderServer,
    /// Path of the filter call; `None`: not asked.
    pub filter_verb: Option<String>,
    /// Path of the prioritize call; `None`: not asked.
    pub prioritize_verb: Option<String>,
    /// Path of the preempt call; `None`: not asked before pods are ended for another one.
    pub preempt_verb: Option<String>,
    /// Path of the bind call; `None`: this extender does not bind.
    pub bind_verb: Option<String>,
    /// Factor of this extender's scores; kube-scheduler asks for a positive one.
    pub weight: i64,
    /// `true` sends and reads node names, `false` whole nodes.
    pub node_cache_capable: bool,
    /// The extender is asked only about pods that request one of these. Empty: about every pod.
    pub managed_resources: Vec<ManagedResource>,
    /// `true`: its errors do not fail the pod. With a bind verb, kube-scheduler then binds the pod itself after an error
    /// (docs/reference/kubernetes.md §1).
    pub ignorable: bool,
    /// Limit of one call by tokio's time; zero means kube-scheduler's default of 5 s.
    pub http_timeout: Duration,
}

/// Where an extender is reached.
#[derive(Clone, Debug)]
pub enum ExtenderServer {
    /// `urlPrefix`: the address without the verb, plain HTTP, such as `http://127.0.0.1:12345`. The host is an IP address:
    /// there is no name server in the cluster.
    Url(String),
    /// A router in this process: each verb is a path below `/`.
    Router(Router),
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
    /// A scheduler without extenders, with seed 0.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), extenders: Vec::new(), seed: 0 }
    }

    /// Adds an extender, which is asked after those before.
    #[must_use]
    pub fn with_extender(mut self, extender: ExtenderConfig) -> Self {
        self.extenders.push(extender);
        self
    }

    /// Sets the seed that decides among nodes of equal score.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The resources that NodeResourcesFit does not look at, over all extenders.
    pub(super) fn ignored_resources(&self) -> BTreeSet<String> {
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        managed
            .filter(|resource| resource.ignored_by_scheduler)
            .map(|resource| resource.name.clone())
            .collect()
    }
}

impl ExtenderConfig {
    /// An extender at the address `url_prefix`, such as `http://127.0.0.1:12345`, with no verb, weight 1, node names only, asked about every pod, 5 s a call.
    pub fn new(url_prefix: impl Into<String>) -> Self {
        Self::at(ExtenderServer::Url(url_prefix.into()))
    }

    /// As [`Self::new`], for a router in this process.
    pub fn in_process(router: Router) -> Self {
        Self::at(ExtenderServer::Router(router))
    }

    /// An extender that only filters: a node takes the pod where `filter` gives `Ok`, and an error is the reason that
    /// users read. It sees whole nodes.
    pub fn filtering(filter: impl Fn(&Pod, &Node) -> Result<(), String> + Send + Sync + 'static) -> Self {
        let extender = Self::in_process(filter_router(filter)).with_filter("filter");
        Self { node_cache_capable: false, ..extender }
    }

    /// Sets the path of the filter call.
    #[must_use]
    pub fn with_filter(self, verb: impl Into<String>) -> Self {
        Self { filter_verb: Some(verb.into()), ..self }
    }

    /// Sets the path of the prioritize call and the factor of its scores.
    #[must_use]
    pub fn with_prioritize(self, verb: impl Into<String>, weight: i64) -> Self {
        Self { prioritize_verb: Some(verb.into()), weight, ..self }
    }

    /// Sets the path of the preempt call.
    #[must_use]
    pub fn with_preempt(self, verb: impl Into<String>) -> Self {
        Self { preempt_verb: Some(verb.into()), ..self }
    }

    /// Sets the path of the bind call.
    #[must_use]
    pub fn with_bind(self, verb: impl Into<String>) -> Self {
        Self { bind_verb: Some(verb.into()), ..self }
    }

    /// Asks the extender about pods that request `resource`, besides those added before; NodeResourcesFit counts it too.
    #[must_use]
    pub fn with_managed_resource(mut self, resource: impl Into<String>) -> Self {
        self.managed_resources.push(ManagedResource { name: resource.into(), ignored_by_scheduler: false });
        self
    }

    fn at(server: ExtenderServer) -> Self {
        Self {
            server,
            filter_verb: None,
            prioritize_verb: None,
            preempt_verb: None,
            bind_verb: None,
            weight: 1,
            node_cache_capable: true,
            managed_resources: Vec::new(),
            ignorable: false,
            http_timeout: Duration::from_secs(5),
        }
    }
}
