//! Which ids a container gets (kubelet's `devicesToAllocate`, topology policy none): first those handed down, then those
//! that the plugin prefers, then any. Called by `allocate`.

use std::sync::atomic::Ordering;

use kubelet_api::deviceplugin::v1beta1::{ContainerPreferredAllocationRequest, PreferredAllocationRequest};
use runtime::reached;

use super::allocate_error::AllocateError;
use super::plugins::{Ids, Plugin};
use super::rpc_error::rpc_error;
use crate::calls::called;
use crate::kubelet::plugin_call::PluginCall;
use crate::kubelet::shared::{Shared, locked};

/// One container's request of one resource.
pub(super) struct DeviceRequest<'a> {
    pub(super) pod_uid: &'a str,
    pub(super) container: &'a str,
    pub(super) resource: &'a str,
    pub(super) count: usize,
}

/// The ids for a request, marked as in use; `None` when the container has them already.
pub(super) async fn choose_ids(
    shared: &Shared,
    request: &DeviceRequest<'_>,
    handed_down: &Ids,
) -> Result<Option<Ids>, AllocateError> {
    if !needs_devices(shared, request)? {
        return Ok(None);
    }
    let mut chosen = Ids::new();
    if handed_down.len() > request.count {
        reached("cluster: kubelet chose among ids that were handed down");
    }
    // The plugin is not asked which of the ids handed down it prefers.
    take(shared, request, handed_down, &mut chosen);
    if chosen.len() == request.count {
        return Ok(Some(chosen));
    }
    let resource = request.resource.to_owned();
    let (available, plugin) = {
        let devices = locked(&shared.devices);
        (devices.available(request.resource), devices.plugins.plugin(request.resource))
    };
    let needed = request.count - chosen.len();
    if available.len() < needed {
        return Err(AllocateError::TooFew { resource, needed, available: available.len() });
    }
    let plugin = plugin.ok_or(AllocateError::NoEndpoint(resource))?;
    let preferred = preferred_ids(shared, request, &plugin, &available, &chosen).await?;
    if shared.ignores_preferences.load(Ordering::SeqCst) {
        take(shared, request, &available.difference(&preferred).cloned().collect(), &mut chosen);
    }
    take(shared, request, &preferred.intersection(&available).cloned().collect(), &mut chosen);
    take(shared, request, &available, &mut chosen);
    if chosen.len() < request.count {
        return Err(AllocateError::LostSome { requested: request.count, got: chosen.len() });
    }
    Ok(Some(chosen))
}

/// Whether devices are to be allocated at all: not to a container that has them, nor to one that runs already.
fn needs_devices(shared: &Shared, request: &DeviceRequest<'_>) -> Result<bool, AllocateError> {
    let (pods_listed, was_running) = {
        let pods = locked(&shared.pods);
        (pods.listed, pods.was_running(request.pod_uid, request.container))
    };
    let devices = locked(&shared.devices);
    let resource = request.resource.to_owned();
    let assigned =
        devices.assignments.container_ids(request.pod_uid, request.container).remove(request.resource);
    if let Some(assigned) = &assigned
        && assigned.len() != request.count
    {
        return Err(AllocateError::Changed {
            pod: request.pod_uid.to_owned(),
            container: request.container.to_owned(),
            resource,
            assigned: assigned.len(),
            requested: request.count,
        });
    }
    // Before the first list of pods has been handled, a running container can only mean a restarted kubelet.
    if !pods_listed && was_running {
        reached("cluster: a container ran on over kubelet's restart");
        return Ok(false);
    }
    let healthy =
        devices.plugins.healthy(request.resource).ok_or(AllocateError::Unregistered(resource.clone()))?;
    if healthy.is_empty() {
        return Err(AllocateError::NoneHealthy(resource));
    }
    match &assigned {
        Some(assigned) if !assigned.is_subset(healthy) => Err(AllocateError::AssignedUnhealthy(resource)),
        Some(_) => Ok(false),
        None => Ok(request.count > 0),
    }
}

/// Adds ids of `from` until there are enough or none are left.
fn take(shared: &Shared, request: &DeviceRequest<'_>, from: &Ids, chosen: &mut Ids) {
    let rest: Ids = from.difference(chosen).cloned().collect();
    let missing = request.count - chosen.len();
    let order = locked(&shared.chooser).order_ids(&rest);
    let mut devices = locked(&shared.devices);
    for id in order.into_iter().take(missing) {
        devices.assignments.mark_in_use(request.resource, &id);
        chosen.insert(id);
    }
}

/// The ids that the plugin prefers. It is asked even when there is nothing to choose.
async fn preferred_ids(
    shared: &Shared,
    request: &DeviceRequest<'_>,
    plugin: &Plugin,
    available: &Ids,
    must_include: &Ids,
) -> Result<Ids, AllocateError> {
    if !plugin.has_preference {
        return Ok(Ids::new());
    }
    let (Some(mut client), None) = (plugin.client.clone(), plugin.stopped_at) else {
        let stopped = AllocateError::Stopped(request.resource.to_owned());
        return Err(AllocateError::Preference(stopped.to_string()));
    };
    let container_request = {
        let mut chooser = locked(&shared.chooser);
        ContainerPreferredAllocationRequest {
            available_device_i_ds: chooser.order_ids(&available.union(must_include).cloned().collect()),
            must_include_device_i_ds: chooser.order_ids(must_include),
            allocation_size: i32::try_from(request.count).unwrap_or(i32::MAX),
        }
    };
    let call = PreferredAllocationRequest { container_requests: vec![container_request.clone()] };
    let answer = tokio::select! {
        biased;
        () = shared.stopping.cancelled() => return Err(AllocateError::KubeletStops),
        answer = client.get_preferred_allocation(call) => answer,
    };
    let answer = answer.map_err(|error| rpc_error(&error, &plugin.socket)).map(|answer| {
        let first = answer.into_inner().container_responses.into_iter().next();
        first.into_iter().flat_map(|first| first.device_i_ds).collect::<Ids>()
    });
    let DeviceRequest { pod_uid, container, resource, .. } = request;
    shared.runtime.plugin_called(&PluginCall::Preferred {
        resource: (*resource).to_owned(),
        request: container_request,
        answer: answer.clone(),
    });
    let preferred = answer.map_err(AllocateError::Preference)?;
    called(format_args!("preferred of {resource} for {container} of {pod_uid}: {preferred:?}"));
    Ok(preferred)
}
