//! Allocation for one container (kubelet's `manager.go`): choose ids, call the plugin's Allocate, keep its answer. Called
//! by `pods::admission`, one container at a time.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use kubelet_api::deviceplugin::v1beta1::{AllocateRequest, ContainerAllocateRequest};
use runtime::reached;
use tonic::Status;

pub(crate) use super::allocate_error::AllocateError;
use super::assignments::{AllocateAnswer, Assignment};
use super::choose_ids::{DeviceRequest, choose_ids};
use super::hand_down::HandDown;
use super::plugins::Ids;
use super::rpc_error::rpc_error;
use crate::amounts::Amounts;
use crate::calls::called;
use crate::kubelet::plugin_call::PluginCall;
use crate::kubelet::shared::{Shared, locked};

/// Gives `container` its ids of every plugin's resource, first those of `hand_down`.
pub(crate) async fn allocate(
    shared: &Arc<Shared>,
    pod_uid: &str,
    container: &Container,
    hand_down: &HandDown,
) -> Result<(), AllocateError> {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limits = Amounts::of(limits).iter().map(|(name, count)| (name.clone(), count)).collect();
    let limits = locked(&shared.chooser).order(limits);
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
    if assigned {
        // The entries stay in memory: the write after the next change has them.
        shared.save_checkpoint().await.map_err(AllocateError::NotSaved)?;
    }
    Ok(())
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
