//! The ends of containers: told to the [`ContainerRuntime`](crate::kubelet::ContainerRuntime) when they come, whoever waits for
//! them, and brought about by SIGTERM. Its task runs once per kubelet.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use jiff::Timestamp;

use super::containers::Runs;
use super::grace;
use crate::kubelet::container_runtime::ContainerEnd;
use crate::kubelet::shared::{Shared, locked};

/// Tells of ends until the kubelet stops. What ends later is told by the next kubelet, when it starts.
pub(crate) async fn run(shared: Arc<Shared>) {
    let tell_all = async {
        loop {
            tell(&shared);
            if shared.ends_unsaved.swap(false, Ordering::SeqCst) {
                shared.save_containers().await;
            }
            let next = locked(&shared.containers).next_end();
            // Either way it is looked what has ended.
            tokio::select! {
                biased;
                () = shared.containers_changed.notified() => {}
                () = shared.clock.sleep_until(next.unwrap_or_default()), if next.is_some() => {}
            }
        }
    };
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = tell_all => {}
    }
}

/// Tells of the containers that have ended by now. Whoever looks at containers comes here first, so that nothing that follows
/// from an end is seen before it.
///
/// Whether there were any.
pub(crate) fn tell(shared: &Shared) -> bool {
    let ended = locked(&shared.containers).newly_ended(shared.clock.now());
    for container in &ended {
        let at = container.run.ends.unwrap_or_default();
        let exit_code = container.run.exit_code;
        shared.runtime.ended(&ContainerEnd { container: &container.start, at, exit_code });
    }
    if !ended.is_empty() {
        shared.ends_unsaved.store(true, Ordering::SeqCst);
        shared.containers_changed.notify_one();
    }
    !ended.is_empty()
}

/// A pod's containers as they are now.
pub(crate) fn runs(shared: &Shared, pod_uid: &str) -> Runs {
    tell(shared);
    locked(&shared.containers).runs(pod_uid)
}

/// SIGTERM to what runs of a pod, and SIGKILL after `grace`. When the last of it ends; `None` if nothing runs any more.
pub(crate) async fn terminate(shared: &Arc<Shared>, pod_uid: &str, grace: Duration) -> Option<Timestamp> {
    let now = shared.clock.now();
    let last = locked(&shared.containers).terminate(pod_uid, now, grace);
    tell(shared);
    shared.containers_changed.notify_one();
    shared.save_containers().await;
    last
}

/// Ends the containers of pods that nobody knows any more, with the shortest grace (kubelet's `HandlePodCleanups`).
pub(crate) async fn end_orphans(shared: Arc<Shared>, pods: Vec<String>) {
    let end = async {
        let mut last = None;
        for pod in &pods {
            last = last.max(terminate(&shared, pod, grace::SHORTEST).await);
        }
        if let Some(last) = last {
            shared.clock.sleep_until(last).await;
        }
        tell(&shared);
        {
            let (mut containers, now) = (locked(&shared.containers), shared.clock.now());
            // One that has come meanwhile may have started its containers again.
            pods.iter().for_each(|pod| containers.forget_ended(pod, now));
        }
        shared.save_containers().await;
    };
    tokio::select! {
        biased;
        () = shared.stopping.cancelled() => {}
        () = end => {}
    }
}
