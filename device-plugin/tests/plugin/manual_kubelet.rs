//! A kubelet whose every step a test takes itself, for what a real one does at moments of its own choosing.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use kubelet_api::deviceplugin::v1beta1::device_plugin_client::DevicePluginClient;
use kubelet_api::deviceplugin::v1beta1::registration_server::{Registration, RegistrationServer};
use kubelet_api::deviceplugin::v1beta1::{
    AllocateRequest, ContainerAllocateRequest, ContainerPreferredAllocationRequest, Empty,
    ListAndWatchResponse, PreferredAllocationRequest, RegisterRequest,
};
use kubelet_api::podresources::v1::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, ContainerDevices, GetPodResourcesRequest,
    GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
};
use kubelet_api::unix::{connect, incoming, listen};
use neuron_core::names::NEURON;
use serde_json::json;
use testkit_support::{eventually, within};
use tokio::sync::watch;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status, Streaming};

use crate::node::{Node, Plugin, asks};

/// Notes registrations, dials back as kubelet does, and writes its checkpoint as it is told.
pub(crate) struct ManualKubelet {
    node_dir: std::path::PathBuf,
    /// Resource and socket of each registration, refused ones too.
    registered: watch::Sender<Vec<(String, String)>>,
    /// The texts of its next refusals.
    pub(crate) refusals: Mutex<Vec<String>>,
    pub(crate) streams: watch::Sender<Vec<Arc<tokio::sync::Mutex<Streaming<ListAndWatchResponse>>>>>,
    /// The devices that it counts as allocatable; an old kubelet does not tell.
    pub(crate) allocatable: watch::Sender<Option<Vec<String>>>,
    /// Whether it drops every stream as soon as it has it.
    pub(crate) drops: AtomicBool,
    /// How often it was asked for its assignments, which makes kubelet forget what is being allocated.
    lists: AtomicUsize,
}

#[tonic::async_trait]
impl Registration for ManualKubelet {
    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Empty>, Status> {
        let request = request.into_inner();
        let asked = (request.resource_name, request.endpoint.clone());
        let refusal = (asked.0 == NEURON).then(|| self.refusals.lock().unwrap().pop()).flatten();
        if let Some(text) = refusal {
            self.registered.send_modify(|all| all.push(asked));
            return Err(Status::unknown(text));
        }
        let channel = connect(&self.node_dir.join("device-plugins").join(&request.endpoint)).await.unwrap();
        let stream = DevicePluginClient::new(channel).list_and_watch(Empty {}).await?.into_inner();
        if !self.drops.load(Ordering::SeqCst) {
            self.streams.send_modify(|all| all.push(Arc::new(tokio::sync::Mutex::new(stream))));
        }
        self.registered.send_modify(|all| all.push(asked));
        Ok(Response::new(Empty {}))
    }
}

#[tonic::async_trait]
impl PodResourcesLister for ManualKubelet {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        Ok(Response::new(ListPodResourcesResponse::default()))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        let allocatable = self.allocatable.borrow().clone();
        let device_ids = allocatable.ok_or_else(|| Status::unimplemented("an old kubelet"))?;
        let devices = vec![ContainerDevices { resource_name: NEURON.to_owned(), device_ids, topology: None }];
        Ok(Response::new(AllocatableResourcesResponse { devices, ..Default::default() }))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

impl ManualKubelet {
    pub(crate) fn start(node: &Node) -> Arc<Self> {
        let node_dir = node.config.kubelet_dir.clone();
        for folder in ["device-plugins", "pod-resources"] {
            std::fs::create_dir_all(node_dir.join(folder)).unwrap();
        }
        let kubelet = Arc::new(ManualKubelet {
            node_dir: node_dir.clone(),
            registered: watch::Sender::default(),
            refusals: Mutex::default(),
            streams: watch::Sender::default(),
            allocatable: watch::Sender::default(),
            drops: AtomicBool::new(false),
            lists: AtomicUsize::new(0),
        });
        let registration = listen(&node_dir.join("device-plugins/kubelet.sock")).unwrap();
        let assignments = listen(&node_dir.join("pod-resources/kubelet.sock")).unwrap();
        let register = Server::builder().add_service(RegistrationServer::from_arc(Arc::clone(&kubelet)));
        tokio::spawn(register.serve_with_incoming(incoming(registration)));
        let lister = Server::builder().add_service(PodResourcesListerServer::from_arc(Arc::clone(&kubelet)));
        tokio::spawn(lister.serve_with_incoming(incoming(assignments)));
        kubelet
    }

    pub(crate) async fn registered(&self, times: usize) {
        let mut registered = self.registered.subscribe();
        let enough =
            registered.wait_for(|all| all.iter().filter(|(name, _)| name == NEURON).count() >= times);
        within(&format!("registration {times}"), enough).await.unwrap();
    }

    /// The sockets that devices were registered with, in order.
    pub(crate) fn sockets(&self) -> Vec<String> {
        let registered = self.registered.borrow();
        registered.iter().filter(|(name, _)| name == NEURON).map(|(_, socket)| socket.clone()).collect()
    }

    /// kubelet 1.37 never frees a path that it refused once.
    pub(crate) fn sockets_differ(&self) {
        let (all, different) = (self.sockets(), self.sockets().into_iter().collect::<BTreeSet<_>>());
        assert_eq!(all.len(), different.len(), "a socket was registered twice: {all:?}");
    }

    pub(crate) async fn devices(&self) -> DevicePluginClient<Channel> {
        self.plugin_of(NEURON).await
    }

    /// The plugin that serves a resource, once there is one.
    pub(crate) async fn plugin_of(&self, resource: &str) -> DevicePluginClient<Channel> {
        let mut registered = self.registered.subscribe();
        let is_of = |(name, _): &&(String, String)| name == resource;
        let all = registered.wait_for(|all| all.iter().any(|one| is_of(&one)));
        let all = within(resource, all).await.unwrap().clone();
        let (_, socket) = all.iter().rfind(is_of).unwrap();
        let socket = self.node_dir.join("device-plugins").join(socket);
        DevicePluginClient::new(connect(&socket).await.unwrap())
    }

    /// One admission: the question, then the answer's ids allocated.
    pub(crate) async fn admit(&self, available: &[&str], size: i32) -> Vec<String> {
        let mut plugin = self.devices().await;
        let question = ContainerPreferredAllocationRequest {
            available_device_i_ds: available.iter().map(|id| (*id).to_owned()).collect(),
            must_include_device_i_ds: Vec::new(),
            allocation_size: size,
        };
        let answer = plugin
            .get_preferred_allocation(PreferredAllocationRequest { container_requests: vec![question] })
            .await;
        let ids = answer.unwrap().into_inner().container_responses.remove(0).device_i_ds;
        plugin.allocate(request(&ids)).await.unwrap();
        ids
    }

    /// The ids that the plugin's list has as unhealthy, once they are as said.
    pub(crate) async fn lists_unhealthy(&self, unhealthy: &[&str]) {
        let sockets = self.registered.borrow();
        let place = sockets.iter().rposition(|(name, _)| name == NEURON).unwrap();
        drop(sockets);
        let stream = Arc::clone(&self.streams.borrow()[place]);
        let listed = async {
            let mut stream = stream.lock().await;
            loop {
                let list = stream.message().await.unwrap().unwrap().devices;
                let ids = list.iter().filter(|device| device.health == "Unhealthy").map(|device| &device.id);
                if ids.eq(unhealthy) {
                    return;
                }
            }
        };
        within(&format!("a list with {unhealthy:?} unhealthy"), listed).await;
    }

    /// Writes down what it offers.
    pub(crate) fn offers(&self, ids: &[&str]) {
        let registered = json!({ NEURON: ids });
        let checkpoint =
            json!({"Data": {"PodDeviceEntries": null, "RegisteredDevices": registered}, "Checksum": 1});
        self.write_text(&checkpoint.to_string());
    }

    /// Writes down what pods' containers have.
    pub(crate) async fn write(&self, node: &Node, held: &[(&str, &[String])]) {
        let mut entries = Vec::new();
        for (pod, ids) in held {
            let uid = node.pods().get(pod).await.unwrap().metadata.uid;
            entries.push(json!({
                "PodUID": uid, "ContainerName": "main", "ResourceName": NEURON, "DeviceIDs": {"-1": ids}, "AllocResp": "",
            }));
        }
        let checkpoint =
            json!({"Data": {"PodDeviceEntries": entries, "RegisteredDevices": {}}, "Checksum": 1});
        self.write_text(&checkpoint.to_string());
    }

    /// Puts a folder in the checkpoint's place, which nobody can read. What it said.
    pub(crate) fn hide_checkpoint(&self) -> String {
        let file = self.node_dir.join("device-plugins/kubelet_internal_checkpoint");
        let said = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::create_dir(&file).unwrap();
        said
    }

    /// Puts the checkpoint back.
    pub(crate) fn show_checkpoint(&self, said: String) {
        let file = self.node_dir.join("device-plugins/kubelet_internal_checkpoint");
        std::fs::remove_dir(&file).unwrap();
        std::fs::write(&file, said).unwrap();
    }

    pub(crate) fn write_text(&self, checkpoint: &str) {
        let folder = self.node_dir.join("device-plugins");
        std::fs::write(folder.join("new"), checkpoint).unwrap();
        std::fs::rename(folder.join("new"), folder.join("kubelet_internal_checkpoint")).unwrap();
    }
}

pub(crate) fn request(ids: &[String]) -> AllocateRequest {
    AllocateRequest { container_requests: vec![ContainerAllocateRequest { devices_ids: ids.to_vec() }] }
}

/// A node object, which the plugin reports on; no kubelet makes it here.
pub(crate) async fn node_object(node: &Node) {
    let nodes: kube::Api<k8s_openapi::api::core::v1::Node> = kube::Api::all(node.api.client());
    let object = serde_json::from_value(json!({ "metadata": { "name": crate::node::NODE } })).unwrap();
    nodes.create(&Default::default(), &object).await.unwrap();
}

/// A registered plugin on a node of this type without pods.
pub(crate) async fn registered(instance_type: &str) -> (Node, Arc<ManualKubelet>, Plugin) {
    let node = Node::new(instance_type);
    node_object(&node).await;
    let kubelet = ManualKubelet::start(&node);
    let plugin = node.plugin();
    kubelet.registered(1).await;
    (node, kubelet, plugin)
}

/// A registered plugin on a node with two equal pods that wait: `first` with devices 0 and 1 recorded, `second` with 2
/// and 3.
async fn two_equal() -> (Node, Arc<ManualKubelet>, Plugin) {
    let (node, kubelet, plugin) = registered("inf2.24xlarge").await;
    node.place("first", asks("neuron", 2), &[("main", "0,1", "")]).await;
    node.place("second", asks("neuron", 2), &[("main", "2,3", "")]).await;
    (node, kubelet, plugin)
}

#[tokio::test]
async fn equal_pods_admitted_in_the_other_order_are_recorded_with_what_they_got() {
    let (node, kubelet, _plugin) = two_equal().await;
    // kubelet admits the second one first.
    let second = kubelet.admit(&["neuron0", "neuron1", "neuron2", "neuron3", "neuron4", "neuron5"], 2).await;
    let first = kubelet.admit(&["neuron2", "neuron3", "neuron4", "neuron5"], 2).await;
    assert_eq!((second.join(","), first.join(",")), ("neuron0,neuron1".into(), "neuron2,neuron3".into()));
    kubelet.write(&node, &[("second", &second), ("first", &first)]).await;

    node.recorded("second", &[("main", "0,1", "")]).await;
    node.recorded("first", &[("main", "2,3", "")]).await;
    let right = "first: AllocationCorrected: The record now says what kubelet gave the pod: container main has \
                 neuron2,neuron3 instead of neuron0,neuron1";
    eventually("the event", async || node.events().await.contains(right).then_some(())).await;
}

#[tokio::test]
async fn what_kubelet_offers_again_before_it_has_written_it_down_is_given_again() {
    let (node, kubelet, _plugin) = two_equal().await;
    let all = ["neuron0", "neuron1", "neuron2", "neuron3", "neuron4", "neuron5"];
    // kubelet admits the second one, which is gone before anybody saw it run.
    assert_eq!(kubelet.admit(&all, 2).await, ["neuron0", "neuron1"]);
    let at_once = kube::api::DeleteParams::default().grace_period(0);
    node.pods().delete("second", &at_once).await.unwrap();
    assert_eq!(kubelet.admit(&all, 2).await, ["neuron0", "neuron1"]);
}

#[tokio::test]
async fn what_a_record_promises_to_another_pod_is_given_where_nothing_else_is_free() {
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    node.place("asks", asks("neuron", 3), &[("main", "0,1,2", "")]).await;
    node.place("waits", asks("neuron", 2), &[("main", "3,4", "")]).await;
    // kubelet still admits a pod that was deleted by force, and gave it what the record of `asks` says.
    let mut plugin = kubelet.devices().await;
    let taken = ["neuron0".to_owned()];
    plugin.allocate(request(&taken)).await.unwrap();
    node.place("other", asks("neuron", 1), &[]).await;
    kubelet.write(&node, &[("other", &taken)]).await;
    let given = kubelet.admit(&["neuron1", "neuron2", "neuron3", "neuron4", "neuron5"], 3).await;
    assert_eq!(given, ["neuron1", "neuron2", "neuron3"]);
}

#[tokio::test]
async fn a_record_is_confirmed_once_kubelet_has_written_down_what_it_gave_and_kubelet_is_never_asked() {
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    node.place("p", asks("neuron", 1), &[("main", "0", "")]).await;
    let ids = kubelet.admit(&["neuron0", "neuron1"], 1).await;
    node.report("a look without the checkpoint", |report| report["holders"] == json!([])).await;
    assert_eq!(node.annotation("p", "NEURON_ALLOCATED").await.as_deref(), Some("false"));
    kubelet.write(&node, &[("p", &ids)]).await;
    eventually("the record to be confirmed", async || {
        (node.annotation("p", "NEURON_ALLOCATED").await.as_deref() == Some("true")).then_some(())
    })
    .await;
    assert_eq!(kubelet.lists.load(Ordering::SeqCst), 0, "a List amid an Allocate makes kubelet forget it");
}

#[tokio::test]
async fn the_same_ids_twice_and_unknown_ids_are_refused() {
    let (node, kubelet, _plugin) = registered("inf2.24xlarge").await;
    node.place("p", asks("neuron", 1), &[("main", "0", "")]).await;
    node.place("q", asks("neuron", 1), &[("main", "1", "")]).await;
    let ids = kubelet.admit(&["neuron0", "neuron1"], 1).await;
    let mut plugin = kubelet.devices().await;
    kubelet.write(&node, &[("p", &ids)]).await;
    let again = plugin.allocate(request(&ids)).await.unwrap_err();
    assert_eq!(
        again.message(),
        "neuron0 of aws.amazon.com/neuron cannot be given: pod default/p holds neuron0; they are free again when \
         that pod has ended"
    );
    let unknown = plugin.allocate(request(&["neuron9".to_owned()])).await.unwrap_err();
    assert_eq!(unknown.code(), tonic::Code::InvalidArgument);
    node.machine.lose(3).unwrap();
    let refused = eventually("the loss to be seen", async || {
        let refused = plugin.allocate(request(&["neuron3".to_owned()])).await.err()?;
        (refused.code() == tonic::Code::Unavailable).then_some(refused)
    });
    let text = refused.await.message().replace(node.config.root.to_str().unwrap(), "R");
    assert_eq!(
        text,
        "neuron3 is unhealthy: R/dev/neuron3 is missing; it can be used again once that is over"
    );
}
