//! Allocation for one container (kubelet's `manager.go`): choose ids, call the plugin's Allocate, keep its answer. Called
//! by `pods::admission`, one container at a time, and as a container starts that has lost its ids.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, Pod};
use kubelet_api::deviceplugin::v1beta1::{AllocateRequest, ContainerAllocateRequest};
use runtime::reached;
use tonic::Status;

pub(crate) use super::allocate_error::AllocateError;
use super::assignments::{AllocateAnswer, Assignment};
use super::choose_ids::{DeviceRequest, choose_ids};
use super::plugins::Ids;
use super::rpc_error::rpc_error;
use crate::amounts::{Amounts, is_sidecar};
use crate::calls::called;
use crate::kubelet::plugin_call::PluginCall;
use crate::kubelet::shared::{Shared, locked};

/// Gives a container of a pod its ids of every plugin's resource, first those that its init containers hand down.
pub(crate) async fn allocate(
    shared: &Arc<Shared>,
    pod: &Pod,
    container: &Container,
) -> Result<(), AllocateError> {
    let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
    // Left out: kubelet itself lets a container that starts and an admission ask at one time, and where one of them fails it counts
    // what the other is being given as free.
    let mut hand_down = shared.hand_down.lock().await;
    hand_down.begin(pod_uid);
    let limits = locked(&shared.chooser).order(limits_of(container));
    let mut freed = false;
    let mut assigned = false;
    for (resource, count) in limits {
        if !locked(&shared.devices).is_allocated_here(&resource) {
            continue;
        }
        if !freed {
            shared.free_inactive();
            freed = true;
        }
        let count = usize::try_from(count).unwrap_or(0);
        let request = DeviceRequest { pod_uid, container: &container.name, resource: &resource, count };
        if let Some(ids) = choose_ids(shared, &request, &hand_down.of(&resource)).await? {
            assign(shared, &request, ids).await?;
            assigned = true;
        }
    }
    {
        let assignments = &locked(&shared.devices).assignments;
        let mut inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let hands_down = inits.any(|init| init.name == container.name && !is_sidecar(init));
        if hands_down {
            hand_down.add(assignments, &container.name);
        } else {
            hand_down.remove(assignments, &container.name);
        }
    }
    if assigned {
        // The entries stay in memory: the write after the next change has them.
        shared.save_checkpoint().await.map_err(AllocateError::NotSaved)?;
    }
    Ok(())
}

/// Gives a container that is about to start ids of the resources of which it has none. Admission gave them, so kubelet has lost its
/// books since, or had no plugin then (`GetDeviceRunContainerOptions`).
pub(crate) async fn allocate_lost(
    shared: &Arc<Shared>,
    pod: &Pod,
    container: &Container,
) -> Result<(), AllocateError> {
    let pod_uid = pod.metadata.uid.as_deref().unwrap_or_default();
    let lacks_any = {
        let devices = locked(&shared.devices);
        let assigned = devices.assignments.container_ids(pod_uid, &container.name);
        let is_lacked = |(resource, count): &(String, i64)| {
            *count > 0 && devices.is_allocated_here(resource) && !assigned.contains_key(resource)
        };
        limits_of(container).iter().any(is_lacked)
    };
    if !lacks_any {
        return Ok(());
    }
    reached("cluster: devices were allocated as their container started");
    allocate(shared, pod, container).await
}

/// What a container asks for, by resource.
fn limits_of(container: &Container) -> Vec<(String, i64)> {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    Amounts::of(limits).iter().map(|(name, count)| (name.clone(), count)).collect()
}

/// Calls the plugin's Allocate, which may stay open for any time, and keeps the ids with its answer.
async fn assign(shared: &Shared, request: &DeviceRequest<'_>, ids: Ids) -> Result<(), AllocateError> {
    let Some(plugin) = locked(&shared.devices).plugins.plugin(request.resource) else {
        locked(&shared.devices).assignments.recount();
        return Err(AllocateError::UnknownPlugin(request.resource.to_owned()));
    };
    let devices_ids = locked(&shared.chooser).order_ids(&ids);
    let call = AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
    let plugin_error = |error: Status| AllocateError::Plugin(rpc_error(&error, &plugin.socket));
    let answer = match (plugin.client.clone(), plugin.stopped_at) {
        (Some(mut client), None) => tokio::select! {
            biased;
            () = shared.stopping.cancelled() => return Err(AllocateError::KubeletStops),
            answer = client.allocate(call) => answer.map_err(plugin_error),
        },
        _ => Err(AllocateError::Stopped(request.resource.to_owned())),
    };
    let DeviceRequest { pod_uid, container, resource, .. } = request;
    match &answer {
        Ok(_) => called(format_args!("Allocate {ids:?} of {resource} for {container} of {pod_uid}: done")),
        Err(error) => {
            called(format_args!("Allocate {ids:?} of {resource} for {container} of {pod_uid}: {error}"))
        }
    }
    shared.runtime.plugin_called(&PluginCall::Allocated {
        resource: (*resource).to_owned(),
        pod_uid: (*pod_uid).to_owned(),
        container: (*container).to_owned(),
        ids: ids.clone(),
        answer: match &answer {
            Ok(answer) => Ok(answer.get_ref().container_responses.clone()),
            Err(error) => Err(error.to_string()),
        },
    });
    let mut devices = locked(&shared.devices);
    let answer = match answer {
        Ok(answer) => answer.into_inner(),
        Err(error) => {
            devices.assignments.recount();
            return Err(error);
        }
    };
    let Some(first) = answer.container_responses.first() else { return Err(AllocateError::Empty(answer)) };
    // Kubelet looks each id up in the plugin's newest list without checking that it is there
    // (docs/reference/kubernetes.md §6).
    if let Some(id) = ids.iter().find(|id| !devices.plugins.lists(request.resource, id)) {
        drop(devices);
        let resource = request.resource;
        shared
            .panic(format!("{id} of {resource} vanished from ListAndWatch while its own Allocate was open"));
        return Err(AllocateError::KubeletStops);
    }
    let now = shared.clock.now();
    if locked(&shared.containers).others_have(request.pod_uid, request.resource, &ids, now) {
        reached("cluster: ids were given out again while their container ran");
    }
    devices.assignments.add(Assignment {
        pod_uid: request.pod_uid.to_owned(),
        container: request.container.to_owned(),
        resource: request.resource.to_owned(),
        ids,
        answer: AllocateAnswer::of(first),
    });
    shared.runtime.assigned(devices.assignments.all());
    Ok(())
}
