//! podresources v1: which ids each container has, for monitoring agents and device plugins.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;
use kubelet_api::podresources::v1::pod_resources_lister_server::PodResourcesLister;
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices, ContainerResources,
    GetPodResourcesRequest, GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
    PodResources,
};
use tonic::{Request, Response, Status};

use super::assignments::Assignments;
use super::plugins::Ids;
use crate::amounts::is_sidecar;
use crate::kubelet::shared::{Shared, locked};

/// The podresources service.
pub(crate) struct Lister(pub(crate) Arc<Shared>);

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        // Frees the ids of ended pods, and with that forgets an open Allocate (docs/reference/kubernetes.md §6).
        self.0.free_inactive();
        let pods: Vec<Arc<Pod>> = locked(&self.0.pods).active().cloned().collect();
        let devices = locked(&self.0.devices);
        let pod_resources = pods.iter().map(|pod| resources_of(&devices.assignments, pod)).collect();
        Ok(Response::new(ListPodResourcesResponse { pod_resources }))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        let devices = locked(&self.0.devices);
        let healthy = devices.plugins.all_healthy();
        let devices = healthy.flat_map(|(resource, ids)| devices_of(resource, ids)).collect();
        Ok(Response::new(AllocatableResourcesResponse { devices, ..Default::default() }))
    }

    async fn get(
        &self,
        request: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        let GetPodResourcesRequest { pod_name, pod_namespace } = request.into_inner();
        let is_asked_for = |pod: &&Arc<Pod>| {
            pod.name_any() == pod_name && pod.namespace().as_deref() == Some(&pod_namespace)
        };
        let found = {
            let pods = locked(&self.0.pods);
            if self.0.api.version().behaviour().podresources_get_leaves_out_ended {
                pods.active().find(is_asked_for).cloned()
            } else {
                pods.all().find(is_asked_for).cloned()
            }
        };
        let Some(pod) = found else {
            return Err(Status::unknown(format!("pod {pod_name} in namespace {pod_namespace} not found")));
        };
        let pod_resources = Some(resources_of(&locked(&self.0.devices).assignments, &pod));
        Ok(Response::new(GetPodResourcesResponse { pod_resources }))
    }
}

fn resources_of(assignments: &Assignments, pod: &Pod) -> PodResources {
    let uid = pod.uid().unwrap_or_default();
    let spec = pod.spec.as_ref();
    let sidecars = spec.and_then(|spec| spec.init_containers.as_ref()).into_iter().flatten();
    let apps = spec.map(|spec| &spec.containers).into_iter().flatten();
    let resources = |container: &Container| {
        let assigned = assignments.of_container(&uid, &container.name);
        let devices = assigned.flat_map(|given| devices_of(&given.resource, &given.ids)).collect();
        ContainerResources { name: container.name.clone(), devices, ..Default::default() }
    };
    PodResources {
        name: pod.name_any(),
        namespace: pod.namespace().unwrap_or_default(),
        containers: sidecars.filter(|init| is_sidecar(init)).chain(apps).map(resources).collect(),
    }
}

/// One entry per id, as kubelet sends them.
fn devices_of(resource: &str, ids: &Ids) -> Vec<ContainerDevices> {
    let entry = |id: &String| ContainerDevices {
        resource_name: resource.to_owned(),
        device_ids: vec![id.clone()],
        topology: None,
    };
    ids.iter().map(entry).collect()
}
