//! One question of kubelet, asked and timed. Used by the bench `calls`.

use std::time::Instant;

use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Empty,
    PreferredAllocationRequest,
};
use tonic::transport::Channel;

use crate::node::{CORES, PODS, id};

/// What kubelet asks a plugin.
#[derive(Clone, Copy)]
pub(crate) enum Question {
    /// Its options: nothing is asked, nothing decided.
    Empty,
    /// The core of the pod that waits.
    Allocate,
    /// Which of the 64 cores that are free suits it.
    Preferred,
    /// All cores, on a stream that is opened for it.
    FirstList,
}

/// Seconds that the answer takes. The question is made before.
pub(crate) async fn ask(plugin: &mut DevicePluginClient<Channel>, question: Question) -> f64 {
    let (allocate, preferred) = (allocate_request(), preferred_request());
    let began = Instant::now();
    match question {
        Question::Empty => drop(plugin.get_device_plugin_options(Empty {}).await.expect("options")),
        Question::Allocate => drop(plugin.allocate(allocate).await.expect("an answer to Allocate")),
        Question::Preferred => {
            let answer = plugin.get_preferred_allocation(preferred).await.expect("a preference");
            assert_eq!(answer.into_inner().container_responses[0].device_i_ds, [id(PODS)]);
        }
        Question::FirstList => {
            let lists = plugin.list_and_watch(Empty {}).await.expect("a stream");
            let list = lists.into_inner().message().await.expect("a list").expect("a list");
            assert_eq!(list.devices.len(), usize::from(CORES));
        }
    }
    began.elapsed().as_secs_f64()
}

fn allocate_request() -> AllocateRequest {
    AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids: vec![id(PODS)] }] }
}

fn preferred_request() -> PreferredAllocationRequest {
    let container = ContainerPreferredAllocationRequest {
        available_device_i_ds: (PODS..CORES).map(id).collect(),
        must_include_device_i_ds: Vec::new(),
        allocation_size: 1,
    };
    PreferredAllocationRequest { container_requests: vec![container] }
}
