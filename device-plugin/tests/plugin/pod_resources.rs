//! How the plugin asks kubelet for what is allocatable: over one connection, once for all resources.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use kubelet_api::podresources::v1::pod_resources_lister_server::{
    PodResourcesLister, PodResourcesListerServer,
};
use kubelet_api::podresources::v1::{
    AllocatableResourcesRequest, AllocatableResourcesResponse, GetPodResourcesRequest,
    GetPodResourcesResponse, ListPodResourcesRequest, ListPodResourcesResponse,
};
use neuron_device_plugin::System;
use neuron_device_plugin::kubelet::podresources::{KubeletError, PodResources};
use runtime::system::Address;
use runtime::{Protocol, Server};
use testkit_support::within;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;
use tonic::{Request, Response, Status};

/// Answers, or never does, and counts.
#[derive(Default)]
struct Lister {
    is_frozen: AtomicBool,
    asked: Notify,
    questions: AtomicUsize,
}

#[tonic::async_trait]
impl PodResourcesLister for Lister {
    async fn list(
        &self,
        _: Request<ListPodResourcesRequest>,
    ) -> Result<Response<ListPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }

    async fn get_allocatable_resources(
        &self,
        _: Request<AllocatableResourcesRequest>,
    ) -> Result<Response<AllocatableResourcesResponse>, Status> {
        self.answer().await;
        Ok(Response::new(Default::default()))
    }

    async fn get(
        &self,
        _: Request<GetPodResourcesRequest>,
    ) -> Result<Response<GetPodResourcesResponse>, Status> {
        Err(Status::unimplemented("nobody asks"))
    }
}

impl Lister {
    async fn answer(&self) {
        self.questions.fetch_add(1, Ordering::SeqCst);
        self.asked.notify_one();
        if self.is_frozen.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    }

    /// Serves in place of what was there before. Aborting the task kills it with its connections.
    fn serve(self: &Arc<Self>, kubelet_dir: &Path) -> JoinHandle<()> {
        let folder = kubelet_dir.join("pod-resources");
        std::fs::create_dir_all(&folder).unwrap();
        let socket = folder.join("kubelet.sock");
        let _ = std::fs::remove_file(&socket);
        let listener = System::real().listen(&Address::Unix(socket)).unwrap();
        let routes = Routes::new(PodResourcesListerServer::from_arc(Arc::clone(self)));
        let routes = routes.prepare().into_axum_router();
        let server = Server::new(System::real(), Protocol::Http2, routes, Duration::ZERO);
        tokio::spawn(server.run(listener, CancellationToken::new()))
    }

    fn questions(&self) -> usize {
        self.questions.load(Ordering::SeqCst)
    }
}

#[tokio::test]
async fn one_answer_serves_all_who_ask_within_a_poll() {
    let (dir, lister) = (tempfile::tempdir().unwrap(), Arc::new(Lister::default()));
    let _server = lister.serve(dir.path());
    let kubelet = PodResources::new(System::real(), dir.path());
    let long = Duration::from_secs(600);
    let (one, other) = tokio::join!(kubelet.allocatable(long), kubelet.allocatable(long));
    one.and(other).unwrap();
    kubelet.allocatable(long).await.unwrap();
    assert_eq!(lister.questions(), 1);
    kubelet.allocatable(Duration::ZERO).await.unwrap();
    assert_eq!(lister.questions(), 2);
}

#[tokio::test]
async fn a_question_that_kubelet_dies_over_is_asked_of_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (dies, next) = (Arc::new(Lister::default()), Arc::new(Lister::default()));
    let kubelet = PodResources::new(System::real(), dir.path());
    let dying = dies.serve(dir.path());
    kubelet.allocatable(Duration::ZERO).await.unwrap();
    dies.asked.notified().await;
    dies.is_frozen.store(true, Ordering::SeqCst);
    let restart = async {
        within("the question", dies.asked.notified()).await;
        dying.abort();
        drop(next.serve(dir.path()));
    };
    let (answer, ()) = tokio::join!(kubelet.allocatable(Duration::ZERO), restart);
    answer.unwrap();
    assert_eq!((dies.questions(), next.questions()), (2, 1));
}

#[tokio::test]
async fn a_frozen_kubelet_is_given_up_for_the_next_one() {
    let dir = tempfile::tempdir().unwrap();
    let (frozen, next) = (Arc::new(Lister::default()), Arc::new(Lister::default()));
    let kubelet = PodResources::new(System::real(), dir.path());
    frozen.is_frozen.store(true, Ordering::SeqCst);
    let _frozen = frozen.serve(dir.path());
    let late = kubelet.allocatable(Duration::ZERO).await.unwrap_err();
    assert!(matches!(&*late, KubeletError::Timeout { .. }), "{late}");
    let _next = next.serve(dir.path());
    kubelet.allocatable(Duration::ZERO).await.unwrap();
}

#[tokio::test]
async fn a_kubelet_that_has_gone_is_named_and_asked_again_when_it_is_back() {
    let dir = tempfile::tempdir().unwrap();
    let lister = Arc::new(Lister::default());
    let kubelet = PodResources::new(System::real(), dir.path());
    let server = lister.serve(dir.path());
    kubelet.allocatable(Duration::ZERO).await.unwrap();
    server.abort();
    let _ = server.await;
    let away = kubelet.allocatable(Duration::ZERO).await.unwrap_err();
    let socket = dir.path().join("pod-resources/kubelet.sock");
    assert_eq!(away.to_string(), format!("cannot reach {}; is somebody listening on it?", socket.display()));
    let _server = lister.serve(dir.path());
    kubelet.allocatable(Duration::ZERO).await.unwrap();
}
