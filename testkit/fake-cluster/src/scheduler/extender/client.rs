//! One configured extender: when it is asked, and what its answers mean. Called by `choose_node` and `bind`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt as _;
use runtime::System;

use super::error::ExtenderError;
use super::transport::Transport;
use super::wire::{self, BindingArgs, ExtenderArgs, FilterResult, NodeList, PreemptionArgs};
use crate::calls::called;
use crate::scheduler::cache::NodeInfo;
use crate::scheduler::choose_node::preemption::Victims;
use crate::scheduler::config::ExtenderConfig;

/// A configured extender and the way to it.
pub(crate) struct Extender {
    config: ExtenderConfig,
    transport: Transport,
}

/// What filter left: the nodes that passed and the texts for those that did not.
pub(crate) struct Filtered {
    pub(crate) passed: Vec<Arc<NodeInfo>>,
    pub(crate) failed: BTreeMap<String, String>,
    pub(crate) unresolvable: BTreeMap<String, String>,
}

impl Extender {
    pub(crate) fn new(system: &System, config: &ExtenderConfig) -> Self {
        let transport = Transport::new(system, &config.server, config.http_timeout);
        Self { config: config.clone(), transport }
    }

    pub(crate) fn is_ignorable(&self) -> bool {
        self.config.ignorable
    }

    pub(crate) fn is_binder(&self) -> bool {
        self.config.bind_verb.is_some()
    }

    /// kube-scheduler's IsInterested: a managed resource in requests or limits of any container.
    pub(crate) fn is_interested(&self, pod: &Pod) -> bool {
        let managed = &self.config.managed_resources;
        let asks = |container: &Container| {
            let resources = container.resources.clone().unwrap_or_default();
            let mut named = resources.requests.into_iter().chain(resources.limits).flatten();
            named.any(|(name, _)| managed.iter().any(|resource| resource.name == name))
        };
        let Some(spec) = &pod.spec else { return managed.is_empty() };
        managed.is_empty() || spec.containers.iter().chain(spec.init_containers.iter().flatten()).any(asks)
    }

    /// Asks which of `nodes` take the pod. An answer that names any other node is an error.
    pub(crate) async fn filter(
        &self,
        pod: &Pod,
        nodes: Vec<Arc<NodeInfo>>,
    ) -> Result<Filtered, ExtenderError> {
        let Some(verb) = &self.config.filter_verb else {
            return Ok(Filtered { passed: nodes, failed: BTreeMap::new(), unresolvable: BTreeMap::new() });
        };
        let answer = self.ask_filter(verb, pod, nodes).await;
        let name = pod.name_any();
        match &answer {
            Ok(Filtered { passed, failed, unresolvable }) => {
                let refused = failed.len() + unresolvable.len();
                called(format_args!("filter {name}: {} nodes pass, {refused} do not", passed.len()));
            }
            Err(error) => called(format_args!("filter {name}: {error}")),
        }
        answer
    }

    async fn ask_filter(
        &self,
        verb: &str,
        pod: &Pod,
        nodes: Vec<Arc<NodeInfo>>,
    ) -> Result<Filtered, ExtenderError> {
        let answer = FilterResult::decode(&self.transport.post(verb, &self.args(pod, &nodes)).await?)?;
        if !answer.error.is_empty() {
            return Err(ExtenderError::Answered(answer.error));
        }
        let names = if self.config.node_cache_capable { answer.node_names } else { None };
        let by_name: BTreeMap<&str, &Arc<NodeInfo>> =
            nodes.iter().map(|node| (node.name.as_str(), node)).collect();
        let mut passed = Vec::new();
        for name in names.or(answer.nodes).unwrap_or_default() {
            let Some(node) = by_name.get(name.as_str()) else {
                return Err(ExtenderError::UnknownNode { url: self.transport.url().to_owned(), node: name });
            };
            passed.push(Arc::clone(node));
        }
        Ok(Filtered { passed, failed: answer.failed, unresolvable: answer.failed_and_unresolvable })
    }

    /// Scores by node, already times weight and times 10 (0..=100 per weight).
    pub(crate) async fn prioritize(
        &self,
        pod: &Pod,
        nodes: &[Arc<NodeInfo>],
    ) -> Result<Vec<(String, i64)>, ExtenderError> {
        let Some(verb) = &self.config.prioritize_verb else { return Ok(Vec::new()) };
        let scores = wire::decode_scores(&self.transport.post(verb, &self.args(pod, nodes)).await?)?;
        let weighted = |score: i64| score.saturating_mul(self.config.weight).saturating_mul(10);
        Ok(scores.into_iter().map(|(node, score)| (node, weighted(score))).collect())
    }

    /// Whether it is asked before pods are ended for another one.
    pub(crate) fn is_preempter(&self) -> bool {
        self.config.preempt_verb.is_some()
    }

    /// Which of the candidates it agrees with, and whom it would have ended there.
    pub(crate) async fn preempt(
        &self,
        pod: &Pod,
        candidates: &BTreeMap<String, Victims>,
        nodes: &[Arc<NodeInfo>],
    ) -> Result<BTreeMap<String, Victims>, ExtenderError> {
        let verb = self.config.preempt_verb.as_deref().unwrap_or_default();
        let args = PreemptionArgs::of(pod, candidates, self.config.node_cache_capable);
        let answer = wire::decode_victims(&self.transport.post(verb, &args).await?)?;
        called(format_args!(
            "preempt for {}: {} of {} nodes",
            pod.name_any(),
            answer.len(),
            candidates.len()
        ));
        let find = |(node, uids): (String, Vec<String>)| {
            let Some(info) = nodes.iter().find(|info| info.name == node) else {
                return Err(ExtenderError::NoNodeInfo { node });
            };
            let find = |uid: &String| {
                let on_node = info.pods.iter().find(|on_node| on_node.pod.metadata.uid.as_ref() == Some(uid));
                on_node.map(|on_node| Arc::clone(&on_node.pod)).ok_or_else(|| ExtenderError::UnknownVictim {
                    url: self.transport.url().to_owned(),
                    uid: uid.clone(),
                    node: node.clone(),
                })
            };
            let victims: Result<Victims, ExtenderError> = uids.iter().map(find).collect();
            Ok((node.clone(), victims?))
        };
        answer.into_iter().map(find).collect()
    }

    /// Asks the extender to bind the pod.
    pub(crate) async fn bind(&self, args: &BindingArgs<'_>) -> Result<(), ExtenderError> {
        let verb = self.config.bind_verb.as_deref().unwrap_or_default();
        let answer = self.ask_bind(verb, args).await;
        match &answer {
            Ok(()) => called(format_args!("bind {} to {}: done", args.pod_name, args.node)),
            Err(error) => called(format_args!("bind {} to {}: {error}", args.pod_name, args.node)),
        }
        answer
    }

    async fn ask_bind(&self, verb: &str, args: &BindingArgs<'_>) -> Result<(), ExtenderError> {
        let error = wire::decode_error(&self.transport.post(verb, args).await?)?;
        if error.is_empty() { Ok(()) } else { Err(ExtenderError::Answered(error)) }
    }

    fn args(&self, pod: &Pod, nodes: &[Arc<NodeInfo>]) -> ExtenderArgs {
        let names = || nodes.iter().map(|node| node.name.clone()).collect();
        let by_name = self.config.node_cache_capable;
        ExtenderArgs {
            pod: wire::pod_json(pod),
            nodes: (!by_name).then(|| NodeList::of(nodes.iter().map(|node| node.node.as_ref()))),
            node_names: by_name.then(names),
        }
    }
}
