//! The LNC at which pods already hold cores. Their ids count the logical cores of that LNC, so the node stays at it until
//! those pods have ended and the plugin has started again. Read by `monitor` before discovery.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use neuron_core::names::NODE_REPORT;
use neuron_core::report::NodeReport;
use runtime::reached;

use crate::pods::Pods;

/// The LNC that running pods fix for this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldLnc {
    /// The instance type that the LNC belongs to.
    pub instance_type: String,
    /// 1 or 2.
    pub lnc: u8,
}

impl HeldLnc {
    /// The LNC of the node's last report, if a live pod still holds what the report says. None if nobody does, if there
    /// is no report, or if the API server does not answer within `timeout`.
    pub async fn read(client: &Client, node: &str, pods: &Pods, timeout: Duration) -> Option<HeldLnc> {
        let nodes: Api<PartialObjectMeta<Node>> = Api::all(client.clone());
        let object = match tokio::time::timeout(timeout, nodes.get_metadata(node)).await {
            Ok(Ok(object)) => object,
            Ok(Err(error)) => return unknown(node, &error.to_string()),
            Err(_) => return unknown(node, &format!("no answer within {timeout:?}")),
        };
        // A pod's own annotations decide nothing about the whole node; the report is the plugin's.
        let report = NodeReport::parse(object.metadata.annotations?.get(NODE_REPORT)?).ok()?;
        if report.holders.is_empty() {
            return None;
        }
        if let Err(error) = pods.read_live().await {
            tracing::warn!(node, reason = %error, "the pods could not be read; holders may have ended");
        }
        let live = pods.known()?;
        let holds = |uid: &str| live.iter().any(|pod| !pod.pod.terminal && pod.pod.uid == uid);
        let held = report.holders.iter().any(|holder| holds(&holder.uid));
        held.then_some(HeldLnc { instance_type: report.instance_type, lnc: report.lnc })
    }
}

fn unknown(node: &str, reason: &str) -> Option<HeldLnc> {
    reached("plugin: node not read");
    tracing::warn!(node, reason, "the node could not be read; pods may hold cores of another LNC");
    None
}
