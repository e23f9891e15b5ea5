//! kubelet's own pods, from Kubernetes 1.37 on: it knows a pod before it asks the plugin for it, and its end before the API server
//! does. Asked by [`crate::pods`]; nothing of kubelet's is touched by it.

mod messages;

use std::path::Path;
use std::time::Duration;

use kube::core::Object;
use kubelet_api::podresources::v1::MAX_MESSAGE_BYTES;
use kubelet_api::pods::v1alpha1::ListPodsRequest;
use kubelet_api::pods::v1alpha1::pods_client::PodsClient;
use neuron_core::pod::{PodSpec, PodStatus};
use prost::Message as _;
use runtime::{System, reached};

use self::messages::WirePod;
use crate::kubelet::connection::{Connection, KubeletError};

/// A Pod, as far as the plugin reads it.
pub type Pod = Object<PodSpec, PodStatus>;

/// How long kubelet may take: its question to the plugin is open meanwhile.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Asks one kubelet for its pods.
pub struct PodsApi(Connection);

/// Why kubelet did not tell its pods.
#[derive(Debug, thiserror::Error)]
pub enum PodsApiError {
    /// It did not answer.
    #[error(transparent)]
    Kubelet(#[from] KubeletError),
    /// What it answered cannot be read.
    #[error("kubelet's pods cannot be read: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// What it answered has another form than this program knows, or kubelet has no pod at all.
    #[error(
        "kubelet told of no pod, or of one without name and UID; is its Pods API another one than v1alpha1 of 1.37?"
    )]
    Empty,
}

impl PodsApi {
    /// Of the kubelet whose folder this is. Nothing is dialled yet.
    pub fn new(system: System, kubelet_dir: &Path) -> Self {
        PodsApi(Connection::new(system, kubelet_dir.join("pods-api/pods-api.sock")))
    }

    /// Every pod that kubelet has, with the status as it knows it.
    ///
    /// # Errors
    /// kubelet has no such API (before 1.37), has not read its pods yet since it started, is away or slow.
    pub async fn list(&self) -> Result<Vec<Pod>, PodsApiError> {
        let answer = self.0.ask(TIMEOUT, async |channel| {
            let mut kubelet = PodsClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES);
            kubelet.list_pods(ListPodsRequest {}).await
        });
        let answer = answer.await;
        match &answer {
            Ok(_) => reached("plugin: kubelet told its pods"),
            Err(KubeletError::Refused(_)) => reached("plugin: kubelet refused to tell its pods"),
            Err(KubeletError::Connect(_) | KubeletError::Timeout { .. }) => {}
        }
        let answer = answer?;
        let pods = answer.pods.iter().map(|pod| WirePod::decode(pod.as_slice()));
        let pods = pods.collect::<Result<Vec<WirePod>, _>>()?;
        // Fields that have moved read as empty. On a node there is always a pod: this plugin's.
        if pods.is_empty() || !pods.iter().all(WirePod::is_whole) {
            return Err(PodsApiError::Empty);
        }
        Ok(pods.into_iter().map(WirePod::into_pod).collect())
    }
}
