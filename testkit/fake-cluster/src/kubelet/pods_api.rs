//! kubelet's own pods, with the status as it knows it (docs/reference/kubernetes.md §8).

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kubelet_api::pods::v1alpha1::pods_server::Pods;
use kubelet_api::pods::v1alpha1::{GetPodRequest, GetPodResponse, ListPodsRequest, ListPodsResponse};
use tonic::{Request, Response, Status};

use super::shared::{Shared, locked};
use crate::api::protobuf;

/// The service.
pub(crate) struct PodsApi(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl Pods for PodsApi {
    async fn list_pods(&self, _: Request<ListPodsRequest>) -> Result<Response<ListPodsResponse>, Status> {
        let pods = self.pods()?;
        Ok(Response::new(ListPodsResponse { pods: pods.iter().map(encoded).collect() }))
    }

    async fn get_pod(&self, request: Request<GetPodRequest>) -> Result<Response<GetPodResponse>, Status> {
        let uid = request.into_inner().pod_uid;
        let found = self.pods()?.into_iter().find(|pod| pod.metadata.uid.as_ref() == Some(&uid));
        let pod = found.ok_or_else(|| Status::not_found(format!("pod with UID {uid} not found")))?;
        Ok(Response::new(GetPodResponse { pod: encoded(&pod) }))
    }
}

impl PodsApi {
    fn pods(&self) -> Result<Vec<Pod>, Status> {
        let pods = locked(&self.0.pods);
        if !pods.listed {
            return Err(Status::failed_precondition("kubelet has not read all its sources yet"));
        }
        let with_status = |(pod, has_ended): (&Arc<Pod>, bool)| {
            let mut pod = Pod::clone(pod);
            let status = pod.status.get_or_insert_default();
            let is_last = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
            // How it ended is in the status that is on its way to the API server.
            if has_ended && !is_last {
                status.phase = Some("Failed".to_owned());
            }
            pod
        };
        Ok(pods.there().map(with_status).collect())
    }
}

fn encoded(pod: &Pod) -> Vec<u8> {
    // A pod's fields are all JSON.
    protobuf::raw("Pod", &serde_json::to_value(pod).unwrap_or_default())
}
