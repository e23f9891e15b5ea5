//! The device manager's Allocate for one container (kubelet's `manager.go`, topology policy none): choose ids, ask the
//! plugin, write it down. Called by `admission`, one container at a time.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Container;
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, AllocateResponse, ContainerAllocateRequest, ContainerAllocateResponse,
    ContainerPreferredAllocationRequest, PreferredAllocationRequest,
};
use tonic::Status;

use super::devices::{Grant, Holding, Ids, Plugin};
use super::endpoint::rpc_error;
use super::reuse::Reusable;
use super::runtime::DeviceMount;
use super::shared::{Shared, locked};
use crate::amounts::Amounts;

/// Why a container gets no devices; the texts are kubelet's.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AllocateError {
    #[error(
        "pod {pod:?} container {container:?} changed request for resource {resource:?} from {held} to {asked}"
    )]
    Changed { pod: String, container: String, resource: String, held: usize, asked: usize },
    #[error("cannot allocate unregistered device {0}")]
    Unregistered(String),
    #[error("no healthy devices present; cannot allocate unhealthy devices {0}")]
    NoneHealthy(String),
    #[error("previously allocated devices are no longer healthy; cannot allocate unhealthy devices {0}")]
    HeldUnhealthy(String),
    #[error(
        "requested number of devices unavailable for {resource}. Requested: {needed}, Available: {available}"
    )]
    TooFew { resource: String, needed: usize, available: usize },
    #[error("unexpectedly allocated less resources than required. Requested: {asked}, Got: {got}")]
    LostSome { asked: usize, got: usize },
    #[error("endpoint not found in cache for a registered resource: {0}")]
    NoEndpoint(String),
    #[error("unknown Device Plugin {0}")]
    UnknownPlugin(String),
    #[error("endpoint {0} has been stopped")]
    Stopped(String),
    #[error("device plugin GetPreferredAllocation rpc failed with err: {0}")]
    Preference(String),
    #[error("{0}")]
    Plugin(String),
    #[error("no containers return in allocation response {0:?}")]
    Empty(AllocateResponse),
    /// The kubelet is stopping or has panicked: nobody is told.
    #[error("kubelet is stopping")]
    KubeletStops,
}

/// One container's wish for one resource.
struct Wish<'a> {
    pod_uid: &'a str,
    container: &'a str,
    resource: &'a str,
    count: usize,
}

/// Gives `container` its ids of every plugin's resource, taking over from `reusable` first.
pub(crate) async fn allocate(
    shared: &Shared,
    pod_uid: &str,
    container: &Container,
    reusable: &Reusable,
) -> Result<(), AllocateError> {
    let limits = container.resources.as_ref().and_then(|resources| resources.limits.as_ref());
    let limits = Amounts::of(limits).iter().map(|(name, count)| (name.clone(), count)).collect();
    let limits = locked(&shared.chooser).order(limits);
    let mut freed = false;
    let mut granted = false;
    for (resource, count) in limits {
        if !locked(&shared.books).is_plugin_resource(&resource) {
            continue;
        }
        if !freed {
            shared.free_inactive();
            freed = true;
        }
        let count = usize::try_from(count).unwrap_or(0);
        let wish = Wish { pod_uid, container: &container.name, resource: &resource, count };
        if let Some(ids) = choose(shared, &wish, &reusable.of(&resource)).await? {
            grant(shared, &wish, ids).await?;
            granted = true;
        }
    }
    if granted {
        shared.save_checkpoint();
    }
    Ok(())
}

/// The ids of a wish; `None` when the container has them already (`devicesToAllocate`).
async fn choose(shared: &Shared, wish: &Wish<'_>, reusable: &Ids) -> Result<Option<Ids>, AllocateError> {
    let resource = wish.resource.to_owned();
    let mut chosen = Ids::new();
    {
        let pods_listed = locked(&shared.pods).listed;
        let was_running = locked(&shared.pods).was_running(wish.pod_uid, wish.container);
        let books = locked(&shared.books);
        let held = books.container_ids(wish.pod_uid, wish.container).remove(wish.resource);
        if let Some(held) = &held
            && held.len() != wish.count
        {
            let (pod, container) = (wish.pod_uid.to_owned(), wish.container.to_owned());
            return Err(AllocateError::Changed {
                pod,
                container,
                resource,
                held: held.len(),
                asked: wish.count,
            });
        }
        // Before the first list of pods is through, a running container can only mean a restarted kubelet.
        if !pods_listed && was_running {
            return Ok(None);
        }
        let healthy = books.healthy(wish.resource).ok_or(AllocateError::Unregistered(resource.clone()))?;
        if healthy.is_empty() {
            return Err(AllocateError::NoneHealthy(resource));
        }
        match &held {
            Some(held) if !held.is_subset(healthy) => return Err(AllocateError::HeldUnhealthy(resource)),
            Some(_) => return Ok(None),
            None if wish.count == 0 => return Ok(None),
            None => {}
        }
    }

    // The plugin is not asked which of the ids handed down it prefers.
    take(shared, wish, reusable, &mut chosen);
    if chosen.len() == wish.count {
        return Ok(Some(chosen));
    }
    let (available, plugin) = {
        let books = locked(&shared.books);
        (books.available(wish.resource), books.plugin(wish.resource))
    };
    let needed = wish.count - chosen.len();
    if available.len() < needed {
        return Err(AllocateError::TooFew { resource, needed, available: available.len() });
    }
    let plugin = plugin.ok_or(AllocateError::NoEndpoint(resource))?;
    let preferred = prefer(shared, wish, &plugin, &available, &chosen).await?;
    take(shared, wish, &preferred.intersection(&available).cloned().collect(), &mut chosen);
    take(shared, wish, &available, &mut chosen);
    if chosen.len() < wish.count {
        return Err(AllocateError::LostSome { asked: wish.count, got: chosen.len() });
    }
    Ok(Some(chosen))
}

/// Adds ids of `from` until the wish is fulfilled or none are left.
fn take(shared: &Shared, wish: &Wish<'_>, from: &Ids, chosen: &mut Ids) {
    let rest: BTreeSet<String> = from.difference(chosen).cloned().collect();
    let missing = wish.count - chosen.len();
    let order = locked(&shared.chooser).order_ids(&rest);
    let mut books = locked(&shared.books);
    for id in order.into_iter().take(missing) {
        books.take(wish.resource, &id);
        chosen.insert(id);
    }
}

/// The plugin's advice; asked even when there is nothing to choose.
async fn prefer(
    shared: &Shared,
    wish: &Wish<'_>,
    plugin: &Plugin,
    available: &Ids,
    must: &Ids,
) -> Result<Ids, AllocateError> {
    if !plugin.offers_preference {
        return Ok(Ids::new());
    }
    let (Some(mut client), None) = (plugin.client.clone(), plugin.stopped_at) else {
        return Err(AllocateError::Preference(AllocateError::Stopped(wish.resource.to_owned()).to_string()));
    };
    let request = {
        let mut chooser = locked(&shared.chooser);
        ContainerPreferredAllocationRequest {
            available_device_i_ds: chooser.order_ids(&available.union(must).cloned().collect()),
            must_include_device_i_ds: chooser.order_ids(must),
            allocation_size: i32::try_from(wish.count).unwrap_or(i32::MAX),
        }
    };
    let request = PreferredAllocationRequest { container_requests: vec![request] };
    let answer = tokio::select! {
        () = shared.stopping.cancelled() => return Err(AllocateError::KubeletStops),
        answer = client.get_preferred_allocation(request) => answer,
    };
    let answer =
        answer.map_err(|error| AllocateError::Preference(rpc_error(&error, &plugin.socket)))?.into_inner();
    let first = answer.container_responses.into_iter().next();
    Ok(first.into_iter().flat_map(|first| first.device_i_ds).collect())
}

/// Calls the plugin's Allocate, which may stay open for any time, and writes down what it answers.
async fn grant(shared: &Shared, wish: &Wish<'_>, ids: Ids) -> Result<(), AllocateError> {
    let Some(plugin) = locked(&shared.books).plugin(wish.resource) else {
        locked(&shared.books).recount();
        return Err(AllocateError::UnknownPlugin(wish.resource.to_owned()));
    };
    let devices_ids = locked(&shared.chooser).order_ids(&ids);
    let request = AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids }] };
    let answer = match (plugin.client, plugin.stopped_at) {
        (Some(mut client), None) => tokio::select! {
            () = shared.stopping.cancelled() => return Err(AllocateError::KubeletStops),
            answer = client.allocate(request) => answer.map_err(|error: Status| AllocateError::Plugin(rpc_error(&error, &plugin.socket))),
        },
        _ => Err(AllocateError::Stopped(wish.resource.to_owned())),
    };
    let mut books = locked(&shared.books);
    let answer = match answer {
        Ok(answer) => answer.into_inner(),
        Err(error) => {
            books.recount();
            return Err(error);
        }
    };
    let Some(first) = answer.container_responses.first() else { return Err(AllocateError::Empty(answer)) };
    // Kubelet looks each id up in the plugin's newest list without asking whether it is there (facts §6).
    if let Some(id) = ids.iter().find(|id| !books.lists(wish.resource, id)) {
        drop(books);
        let fault =
            format!("{id} of {} vanished from ListAndWatch while its own Allocate was open", wish.resource);
        shared.panic(fault);
        return Err(AllocateError::KubeletStops);
    }
    books.hold(Holding {
        pod_uid: wish.pod_uid.to_owned(),
        container: wish.container.to_owned(),
        resource: wish.resource.to_owned(),
        ids,
        grant: granted(first),
    });
    Ok(())
}

fn granted(answer: &ContainerAllocateResponse) -> Grant {
    let device = |device: &kubelet_api::deviceplugin::v1beta1::DeviceSpec| DeviceMount {
        host_path: device.host_path.clone(),
        container_path: device.container_path.clone(),
        permissions: device.permissions.clone(),
    };
    Grant {
        env: answer.envs.clone(),
        devices: answer.devices.iter().map(device).collect(),
        annotations: answer.annotations.clone(),
    }
}
