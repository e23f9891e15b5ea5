//! Keeps the cluster's index fed: one watch of pods, one of nodes, one of the device plugins' Leases. Started by [`crate::serve`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1;
use kube::runtime::watcher::Event;
use kube::{Client, Resource as _};
use neuron_core::names::PLUGIN_LEASE;
use runtime::{Collection, Disconnected, Json, Protobuf, System, reached};
use tokio::time::{Instant, sleep_until};

use crate::index::{Change, Cluster, Index, ObservedLease, ObservedNode, ObservedPod};
use crate::protobuf::messages::{Node, Pod};

/// Pods that may hold hardware. A pod that ends leaves the selection, which the watch reports as a deletion.
const LIVE_PODS: &str = "status.phase!=Succeeded,status.phase!=Failed";

/// How long each watch of Leases lasts, in seconds: where one says nothing, renewals are missing, and that must be noticed before the
/// plugins count as gone for it.
const LEASE_WATCH_SECONDS: u32 = 20;

/// How long a watch has to show a pod that was reserved for and that the list before does not show. It is mostly there at once; one
/// that is not may be gone, which no watch tells.
const SHOWN_WITHIN: Duration = Duration::from_secs(60);

/// Watches pods until the future is dropped.
pub(crate) async fn watch_pods(system: System, client: Client, cluster: Arc<Cluster>) {
    let pods = Collection::of::<v1::Pod>().only(LIVE_PODS);
    let mut changes =
        Changes::new(|pod: &Pod| pod.metadata.uid.clone(), |pod, names| kept(ObservedPod::from(pod), names));
    loop {
        let (gap, list) = (cluster.pod_gap.clone(), cluster.relist.begins());
        let mut events = runtime::watch_with_gap(&system, client.clone(), pods.clone(), Protobuf, gap);
        let mut look_again = None;
        // A list under way is not given up for another one: who asks again and again would keep all from being complete.
        let mut is_listing = false;
        loop {
            let event = tokio::select! {
                biased;
                () = cluster.relist.is_asked_after(list), if !is_listing => break,
                () = until(look_again), if !is_listing => {
                    if cluster.read(Index::has_unlisted_reservations) {
                        reached("extender: pod of a reservation looked for");
                        break;
                    }
                    look_again = None;
                    continue;
                }
                event = events.next() => event,
            };
            let Some(event) = event else { return };
            // Planted: one broken connection ends the extender.
            #[cfg(planted)]
            if event.is_err() && runtime::is_planted("watch-error-ends-extender") {
                return;
            }
            let Some(change) = changes.of(event) else { continue };
            let is_list = matches!(change, Change::Listed(_));
            is_listing = match change {
                Change::ListBegins => true,
                Change::Listed(_) | Change::Disconnected => false,
                Change::Applied(_) | Change::Gone(_) => is_listing,
            };
            cluster.write(|index| index.change_pods(change));
            if is_list {
                cluster.relist.mark_in_index(list);
                let is_open = cluster.read(Index::has_unlisted_reservations);
                look_again = is_open.then(|| Instant::now() + SHOWN_WITHIN);
            }
        }
        reached("extender: pods listed anew");
        // What happens until the new list is there is told by it.
        cluster.write(Index::ask_for_list_of_pods);
        changes.begin_anew();
    }
}

/// Waits until then; for ever without a time.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Watches nodes until the future is dropped.
pub(crate) async fn watch_nodes(system: System, client: Client, cluster: Arc<Cluster>) {
    let nodes = Collection::of::<v1::Node>();
    let mut changes =
        Changes::new(|node: &Node| node.metadata.name.clone(), |node, ()| Some(ObservedNode::from(node)));
    let gap = cluster.node_gap.clone();
    let mut events = runtime::watch_with_gap(&system, client, nodes, Protobuf, gap);
    while let Some(event) = events.next().await {
        if let Some(change) = changes.of(event) {
            cluster.write(|index| index.change_nodes(change));
        }
    }
}

/// Watches the Leases of device plugins, which are in this namespace, until the future is dropped.
pub(crate) async fn watch_leases(system: System, client: Client, cluster: Arc<Cluster>, namespace: String) {
    let path = Lease::url_path(&(), Some(&namespace));
    let leases = Collection { path, watch_seconds: LEASE_WATCH_SECONDS, ..Collection::of::<Lease>() };
    // Other Leases have the name of no node.
    let node = |lease: &Lease| node_of(lease).unwrap_or_default().to_owned();
    let mut changes = Changes::new(node, |lease, ()| observed(&lease));
    let gap = cluster.lease_gap.clone();
    let mut events = runtime::watch_with_gap(&system, client, leases, Json, gap);
    while let Some(event) = events.next().await {
        if let Some(change) = changes.of(event) {
            cluster.write(|index| index.change_leases(change, Instant::now(), system.now()));
        }
    }
}

/// The node whose plugin renews the Lease.
fn node_of(lease: &Lease) -> Option<&str> {
    lease.metadata.name.as_deref()?.strip_prefix(PLUGIN_LEASE)?.strip_prefix('-')
}

/// What counts of a plugin's Lease; none of another one, or one that says too little.
fn observed(lease: &Lease) -> Option<ObservedLease> {
    let (node, spec) = (node_of(lease)?.to_owned(), lease.spec.as_ref()?);
    let lasts = Duration::from_secs(u64::try_from(spec.lease_duration_seconds?).ok()?);
    Some(ObservedLease { node, renewed: spec.renew_time.as_ref()?.0.to_string(), lasts })
}

/// What is kept of the pod, if it decides anything. Its record has been read, and the annotations would be a fifth of what is kept. That of a
/// pod that is not bound says nothing, and any author can write a long one.
fn kept(mut observed: ObservedPod, names: &mut NodeNames) -> Option<ObservedPod> {
    if !decides(&observed) {
        return None;
    }
    let pod = Arc::make_mut(&mut observed.pod);
    pod.annotations.clear();
    if observed.node.is_none() {
        pod.record = Ok(None);
    }
    names.share(&mut observed);
    Some(observed)
}

/// The names of the nodes of a list's pods: each pod and each record has one of its own at first. Those that were let go only in the index,
/// when the list is complete, would leave as many holes between what is kept.
#[derive(Default)]
struct NodeNames(BTreeSet<Arc<str>>);

impl NodeNames {
    /// Has the pod share the name of its node with those before it.
    fn share(&mut self, pod: &mut ObservedPod) {
        let Some(name) = pod.node.clone() else { return };
        let known = self.0.get(&name).cloned().unwrap_or_else(|| {
            self.0.insert(Arc::clone(&name));
            name
        });
        pod.share_node(&known);
    }
}

/// Whether the pod asks for Neuron hardware, gets it from a ResourceClaim or is bound and carries a record.
fn decides(observed: &ObservedPod) -> bool {
    (observed.node.is_some() && !observed.pod.annotations.is_empty())
        || observed.pod.claim.is_some()
        || !observed.pod.request.as_ref().is_ok_and(|request| request.is_empty())
}

/// Makes the index' changes of a watch's events: a list is gathered until it is complete, and of each object only what
/// decides is kept.
struct Changes<K, T, S = ()> {
    /// What [`Change::Gone`] calls an object.
    key: fn(&K) -> String,
    /// What is kept of an object, if anything.
    observe: fn(K, &mut S) -> Option<T>,
    listed: Vec<T>,
    /// What the objects of the list share.
    shared: S,
}

impl<K, T, S: Default> Changes<K, T, S> {
    fn new(key: fn(&K) -> String, observe: fn(K, &mut S) -> Option<T>) -> Self {
        Self { key, observe, listed: Vec::new(), shared: S::default() }
    }

    /// The watch was given up for another one.
    fn begin_anew(&mut self) {
        drop(self.take_listed());
    }

    fn take_listed(&mut self) -> Vec<T> {
        self.shared = S::default();
        std::mem::take(&mut self.listed)
    }

    fn of(&mut self, event: Result<Event<K>, Disconnected>) -> Option<Change<T>> {
        match event {
            Ok(Event::Init) => Some(Change::ListBegins),
            Ok(Event::InitApply(object)) => {
                self.listed.extend((self.observe)(object, &mut self.shared));
                None
            }
            Ok(Event::InitDone) => Some(Change::Listed(self.take_listed())),
            Ok(Event::Apply(object)) => {
                let key = (self.key)(&object);
                Some((self.observe)(object, &mut S::default()).map_or(Change::Gone(key), Change::Applied))
            }
            Ok(Event::Delete(object)) => Some(Change::Gone((self.key)(&object))),
            Err(_) => {
                self.begin_anew();
                Some(Change::Disconnected)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use std::sync::atomic::{AtomicU32, Ordering};

    use axum::extract::Request;
    use axum::middleware::{Next, from_fn};
    use fake_cluster::api::ApiServer;
    use fake_cluster::clock::Clock;
    use neuron_core::catalog::Catalog;
    use neuron_core::request::{ContainerRequest, PodRequest, Role};
    use neuron_core::topology::Policy;
    use tokio::time::sleep;

    use super::*;
    use crate::index::TopologyCache;
    use crate::protobuf::messages::{ObjectMeta, PodSpec};

    /// An API server that takes so long for a list, and how often it was asked for one.
    fn slow(time: Duration) -> (Client, Arc<AtomicU32>) {
        let lists = Arc::<AtomicU32>::default();
        let counted = lists.clone();
        let layer = from_fn(move |call: Request, next: Next| {
            let is_list = !call.uri().query().unwrap_or_default().contains("watch=");
            let counted = counted.clone();
            async move {
                if is_list {
                    counted.fetch_add(1, Ordering::SeqCst);
                    sleep(time).await;
                }
                next.run(call).await
            }
        });
        (Client::new(ApiServer::new(Clock::new()).router().layer(layer), "default"), lists)
    }

    #[tokio::test(start_paused = true)]
    async fn however_many_ask_for_a_list_amid_one_that_is_completed_and_one_more_serves_all() {
        let topologies = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
        let cluster = Arc::new(Cluster::new(Index::new(topologies)));
        let (client, lists) = slow(Duration::from_secs(20));
        let system = System::real();
        let watch = system.spawn(watch_pods(system.clone(), client, cluster.clone()));
        sleep(Duration::from_secs(30)).await;
        let began = Instant::now();
        let asking = (0..15).map(|second| {
            let cluster = cluster.clone();
            async move {
                sleep(Duration::from_secs(second)).await;
                cluster.relist.pods_are_listed().await;
            }
        });
        futures::future::join_all(asking).await;
        let took = began.elapsed();
        assert!((40..45).contains(&took.as_secs()), "{took:?}: two lists, one after the other");
        assert_eq!(lists.load(Ordering::SeqCst), 3, "with the first one");
        watch.abort();
    }

    /// A pod that was given devices on this node.
    fn pod(uid: &str, node: &str) -> Pod {
        let record =
            format!(r#"{{"v":1,"node":"{node}","lnc":1,"containers":{{"main":{{"devices":[0]}}}}}}"#);
        let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.into_bytes())]);
        let metadata = ObjectMeta { uid: uid.to_owned(), annotations, ..ObjectMeta::default() };
        let spec = PodSpec { node_name: node.to_owned(), ..PodSpec::default() };
        Pod { metadata, spec, ..Pod::default() }
    }

    #[test]
    fn of_a_list_only_what_decides_is_kept_and_each_nodes_name_once() {
        let mut changes = Changes::new(
            |pod: &Pod| pod.metadata.uid.clone(),
            |pod, names| kept(ObservedPod::from(pod), names),
        );
        assert!(matches!(changes.of(Ok(Event::Init)), Some(Change::ListBegins)));
        for pod in [pod("u", "n1"), pod("v", "n2"), Pod::default(), pod("w", "n1")] {
            assert!(changes.of(Ok(Event::InitApply(pod))).is_none(), "the list is not complete");
        }
        let Some(Change::Listed(pods)) = changes.of(Ok(Event::InitDone)) else { panic!("a complete list") };
        assert_eq!(pods.iter().map(|pod| &*pod.pod.uid).collect::<Vec<_>>(), ["u", "v", "w"]);
        let nodes: Vec<_> = pods.iter().filter_map(|pod| pod.node.as_ref()).collect();
        assert_eq!(nodes.iter().map(|node| &***node).collect::<Vec<_>>(), ["n1", "n2", "n1"]);
        assert!(Arc::ptr_eq(nodes[0], nodes[2]));
        assert!(pods.iter().all(|pod| pod.pod.annotations.is_empty()), "their records were read");
    }

    /// Anybody may write one, on as many pods as are never scheduled.
    #[test]
    fn of_a_record_on_a_pod_that_is_not_bound_nothing_is_kept() {
        let names = &mut NodeNames::default();
        assert!(kept(ObservedPod::from(pod("u", "")), names).is_none(), "it asks for nothing");
        let mut asks = ObservedPod::from(pod("v", ""));
        let request = ContainerRequest { name: "main".into(), role: Role::App, devices: 1, cores: 0 };
        Arc::make_mut(&mut asks.pod).request = Ok(PodRequest { containers: vec![request] });
        assert!(matches!(asks.pod.record, Ok(Some(_))));
        assert_eq!(kept(asks, names).unwrap().pod.record, Ok(None));
    }
}
