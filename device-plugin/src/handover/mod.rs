//! Devices that kubelet offers while a process of the pod that had them still has them open: it offers them again as soon as the
//! pod's object is gone, and the containers still get their grace. Asked by `allocation` before an answer.

pub mod cgroup;
pub mod mode;
pub mod processes;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use neuron_core::ids::DeviceSet;
use runtime::{System, reached};
use tokio::time::{Instant, sleep_until, timeout};

use crate::config::Config;
use crate::handover::mode::HandoverMode;
use crate::handover::processes::{OpenDevice, Processes};
use crate::metrics::{HandoverResult, Metrics};
use crate::status::Status;

/// The part of [`Status`] that is this.
const HANDOVER: &str = "handover";
/// Time between two looks at the processes.
const LOOK_AGAIN: Duration = Duration::from_millis(250);
/// Longest look. A node has thousands of processes at most, and each is asked for one small file.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// What is done about processes of gone pods.
pub struct Handover {
    /// Whether they are looked at, and what follows.
    pub mode: HandoverMode,
    limit: Duration,
    processes: Processes,
    status: Arc<Status>,
    metrics: Arc<Metrics>,
}

impl Handover {
    /// Nothing is looked at yet.
    pub fn new(system: System, config: &Config, status: Arc<Status>, metrics: Arc<Metrics>) -> Self {
        Self {
            mode: config.handover,
            limit: config.handover_limit,
            processes: Processes::new(system, config.host_proc.clone(), config.root.clone()),
            status,
            metrics,
        }
    }

    /// Says at the start what is done, and whether it can be.
    pub async fn start(&self) {
        if self.mode == HandoverMode::Off {
            let note = "off: a pod's devices are given out again as soon as it is gone, though its processes may still have \
                        them open during their grace; deploy/handover-patch.yml changes that";
            return self.status.tell(HANDOVER, note);
        }
        match self.processes.check().await {
            Ok(()) => {
                tracing::info!(mode = %self.mode, limit = ?self.limit, "processes of gone pods are looked at")
            }
            Err(error) => self.cannot_look(&error),
        }
    }

    /// When to stop waiting that begins now.
    pub fn deadline(&self) -> Instant {
        let limit = if self.mode == HandoverMode::Wait { self.limit } else { Duration::ZERO };
        Instant::now() + limit
    }

    /// Waits until no process of these gone pods, by UID, has the devices open that the pod had. The process that still has one
    /// open at the `deadline`; none if there is none, or nobody can tell.
    pub async fn wait(&self, gone: &BTreeMap<String, DeviceSet>, deadline: Instant) -> Option<OpenDevice> {
        let (began, mut waits) = (Instant::now(), false);
        loop {
            let open = self.look(gone).await;
            let waited = began.elapsed();
            let Some(open) = open else {
                if waits {
                    self.metrics.handover(HandoverResult::Closed, waited);
                }
                return None;
            };
            // Planted: what is still open at the deadline is given.
            #[cfg(planted)]
            if Instant::now() >= deadline && runtime::is_planted("given-at-the-deadline") {
                return None;
            }
            if Instant::now() >= deadline {
                let result = match self.mode {
                    HandoverMode::Wait => HandoverResult::Refused,
                    HandoverMode::Mark | HandoverMode::Off => HandoverResult::Marked,
                };
                self.metrics.handover(result, waited);
                return Some(open);
            }
            reached("plugin: waits for a process of a gone pod");
            if !std::mem::replace(&mut waits, true) {
                tracing::info!(reason = %open, limit = ?self.limit, "an allocation waits");
            }
            sleep_until(deadline.min(Instant::now() + LOOK_AGAIN)).await;
        }
    }

    /// A process of these gone pods, by UID, that has a device open which its pod had; none if there is none, or nobody can tell.
    pub async fn look(&self, gone: &BTreeMap<String, DeviceSet>) -> Option<OpenDevice> {
        if gone.is_empty() {
            return None;
        }
        let too_long = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
        match timeout(LONGEST_LOOK, self.processes.first_with_open(gone)).await.unwrap_or_else(too_long) {
            Ok(open) => {
                self.status.clear_note(HANDOVER);
                open
            }
            Err(error) => {
                self.cannot_look(&error);
                None
            }
        }
    }

    fn cannot_look(&self, error: &std::io::Error) {
        reached("plugin: processes not read");
        let note = format!(
            "the node's processes cannot be looked at in {}: {error}; devices are given out as with --handover=off until \
             they can (deploy/handover-patch.yml)",
            self.processes.folder().display()
        );
        self.status.note(HANDOVER, &note);
    }
}
