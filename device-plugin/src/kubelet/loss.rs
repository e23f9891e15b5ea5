//! When a registration no longer holds, and why. Asked by `registration` while a resource is registered.

use std::time::Duration;

use neuron_core::ids::CoreSet;
use runtime::reached;
use runtime::system::FileStatus;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::kubelet::registration::Registration;
use crate::kubelet::serving_lock::ServingLock;
use crate::kubelet::socket::SocketServer;
use crate::resource::ids_with_cores;

/// Polls in a row that must find devices not allocatable: kubelet may still be at the list before.
const POLLS: u32 = 2;

/// The problem while another plugin serves.
pub(super) const REPLACED: &str = "another device plugin serves on this node; if this one is not about to end, Neuron's device plugin is \
                                   deployed twice: remove one";

/// Why a registration did not last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    Replaced,
    KubeletRestarted,
    SocketVanished,
    StreamEnded,
    NotAllocatable,
}

impl Lost {
    pub(super) fn text(self) -> &'static str {
        match self {
            Lost::Replaced => REPLACED,
            Lost::KubeletRestarted => "kubelet has restarted; registering again",
            Lost::SocketVanished => "our socket has vanished; serving and registering again",
            Lost::StreamEnded => "kubelet's device stream has ended; registering again",
            Lost::NotAllocatable => {
                "kubelet does not make allocatable what the plugin advertises; serving and registering again"
            }
        }
    }

    /// Counts it as a branch.
    pub(super) fn count(self) {
        match self {
            Lost::Replaced => reached("plugin: replaced by another plugin"),
            Lost::KubeletRestarted => reached("plugin: kubelet restarted"),
            Lost::SocketVanished => reached("plugin: socket vanished"),
            Lost::StreamEnded => reached("plugin: stream ended"),
            Lost::NotAllocatable => reached("plugin: not allocatable"),
        }
    }
}

impl Registration {
    /// Waits until the registration with the kubelet of this socket no longer holds, and says why.
    pub(super) async fn until_lost(
        &mut self,
        kubelet: Option<FileStatus>,
        lock: &mut ServingLock,
        server: &mut SocketServer,
    ) -> Lost {
        let mut polls = interval_at(Instant::now() + self.poll, self.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let (mut missing, mut withdrawn) = (0, CoreSet::EMPTY);
        loop {
            if !lock.keep(&self.folder).await {
                return Lost::Replaced;
            }
            // A kubelet that goes on without its socket keeps the registration.
            if self.folder.kubelet().await.is_some_and(|now| Some(now) != kubelet) {
                return Lost::KubeletRestarted;
            }
            if !server.is_up(&self.folder).await {
                return Lost::SocketVanished;
            }
            // Planted: kubelet is waited for to open its stream again, which it never does.
            #[cfg(planted)]
            if runtime::is_planted("lost-stream-waited-for") {
                let _again = server.streams.wait_for(|streams| streams.open > 0).await;
            }
            if server.streams.borrow_and_update().open == 0 {
                return Lost::StreamEnded;
            }
            if missing >= POLLS {
                return Lost::NotAllocatable;
            }
            tokio::select! {
                // The polls first: they come seldom, and only they ask kubelet. The others lead to the same look.
                biased;
                _ = polls.tick() => {
                    // kubelet's answer may be as old as the last poll.
                    let before = std::mem::replace(&mut withdrawn, self.engine.withdrawn_from(self.resource.name));
                    let listed = self.is_allocatable(self.poll, withdrawn.union(before)).await;
                    missing = if listed { 0 } else { missing + 1 };
                }
                Ok(()) = server.streams.changed() => {}
                () = self.folder.changed() => {}
            }
        }
    }

    /// Whether kubelet counted every healthy device but those `withdrawn` as allocatable within the last `age`. It may not although
    /// the stream is open: where an earlier plugin's stream ends during a registration, kubelet drops what was just listed. A kubelet that
    /// does not tell is trusted.
    async fn is_allocatable(&self, age: Duration, withdrawn: CoreSet) -> bool {
        let Some(machine) = self.engine.machine() else { return true };
        let topology = &machine.topology;
        let withdrawn = ids_with_cores(topology, self.resource.unit, withdrawn);
        let withdrawn = withdrawn.fold(CoreSet::EMPTY, |all, (_, cores)| all.union(cores));
        let healthy = machine.healthy_cores().difference(withdrawn);
        match self.pod_resources.allocatable(age).await {
            Ok(answer) => healthy.is_subset(answer.cores(topology, self.resource)),
            Err(error) => {
                tracing::debug!(resource = self.resource.name, reason = %error, "kubelet does not tell what is allocatable");
                true
            }
        }
    }
}
