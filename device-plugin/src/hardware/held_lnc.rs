//! Which LNC a node keeps. What pods hold was counted in the logical cores of the LNC of then, so that LNC stays while
//! they hold it; a new one from the configuration file applies once they have ended and the plugin has started again.
//! Asked by `run` before the machine is announced.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use neuron_core::names::NODE_REPORT;
use neuron_core::report::NodeReport;

use crate::pods::Pods;

/// The LNC of the node's last report if a live pod still holds what that report says; none if nobody does, if there
/// is no report, or if the API server does not say so within `deadline`.
pub async fn kept(client: &Client, node: &str, pods: &Pods, deadline: Duration) -> Option<(String, u8)> {
    let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
    let node = match tokio::time::timeout(deadline, nodes.get_metadata(node)).await {
        Ok(Ok(node)) => node,
        Ok(Err(error)) => return unknown(node, &error.to_string()),
        Err(_) => return unknown(node, &format!("no answer within {deadline:?}")),
    };
    // Our own annotation: what pods say of themselves decides nothing about the whole node.
    let report = NodeReport::parse(node.metadata.annotations?.get(NODE_REPORT)?).ok()?;
    if report.holders.is_empty() {
        return None;
    }
    if let Err(error) = pods.read_live().await {
        tracing::warn!("who still holds cores is not known: {error}");
    }
    let live = pods.known()?;
    let held = |uid: &str| live.iter().any(|pod| !pod.pod.terminal && pod.pod.uid == uid);
    report.holders.iter().any(|holder| held(&holder.uid)).then_some((report.instance_type, report.lnc))
}

fn unknown<T>(node: &str, why: &str) -> Option<T> {
    tracing::warn!(
        "whether pods hold cores of another LNC is not known, node {node} could not be read: {why}"
    );
    None
}
