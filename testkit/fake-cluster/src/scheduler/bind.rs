//! Binds a pod to its node: by the extender that binds it, else by kube-scheduler's own Binding.

use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::PostParams};
use serde_json::{Value, json};

use super::extender::client::Extender;
use super::extender::error::ExtenderError;
use super::extender::wire::BindingArgs;

/// Why a pod was not bound; the texts are kube-scheduler's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BindError {
    #[error("{0}")]
    Extender(#[from] ExtenderError),
    #[error("running Bind plugin \"DefaultBinder\": {0}")]
    Binding(String),
}

/// Binds `pod` to `node`. The first interested binder decides; an error of an *ignorable* binder is ignored and the pod is
/// bound without it, as in kube-scheduler.
pub(crate) async fn bind(
    client: &kube::Client,
    extenders: &[Extender],
    pod: &Pod,
    node: &str,
) -> Result<(), BindError> {
    let (name, namespace) = (pod.name_any(), pod.namespace().unwrap_or_default());
    let uid = pod.uid().unwrap_or_default();
    let binders = extenders.iter().filter(|extender| extender.is_binder() && extender.is_interested(pod));
    for extender in binders {
        let args = BindingArgs { pod_name: &name, pod_namespace: &namespace, pod_uid: &uid, node };
        match extender.bind(&args).await {
            Err(error) if extender.is_ignorable() => {
                tracing::info!(pod = name, %error, "an ignorable extender did not bind; the next binder is asked");
            }
            answer => return Ok(answer?),
        }
    }
    let binding = json!({
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace, "uid": uid},
        "target": {"kind": "Node", "name": node},
    });
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    match pods.create_subresource::<_, Value>("binding", &name, &PostParams::default(), &binding).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) => Err(BindError::Binding(status.message.clone())),
        Err(error) => Err(BindError::Binding(error.to_string())),
    }
}
