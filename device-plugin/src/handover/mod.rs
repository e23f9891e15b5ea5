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
use tokio::time::{Instant, sleep_until, timeout_at};

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

/// The node's processes cannot be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unseen;

/// What is done about processes of gone pods.
pub struct Handover {
    /// Whether they are looked at, and what follows.
    pub mode: HandoverMode,
    /// How long an Allocate waits at most for such a process.
    pub limit: Duration,
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

    /// How long processes are waited for.
    pub fn wait_at_most(&self) -> Duration {
        if self.mode == HandoverMode::Wait { self.limit } else { Duration::ZERO }
    }

    /// Waits until no process of these gone pods, by UID, has the devices open that the pod had. The process that still has one
    /// open at the `deadline`; none if there is none, or nobody could ever tell. The last look ends at `end`, whatever hangs.
    pub async fn wait(
        &self,
        gone: &BTreeMap<String, DeviceSet>,
        deadline: Instant,
        end: Instant,
    ) -> Option<OpenDevice> {
        let began = Instant::now();
        let mut seen: Option<OpenDevice> = None;
        loop {
            let looked = self.look(gone, end).await;
            let waited = began.elapsed();
            let open = match looked {
                Ok(Some(open)) => open,
                // Nobody can tell any more that it was closed.
                Err(Unseen) if let Some(open) = &seen => open.clone(),
                Ok(None) | Err(Unseen) => {
                    if seen.is_some() {
                        self.metrics.handover(HandoverResult::Closed, waited);
                    }
                    return None;
                }
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
            if seen.is_none() {
                tracing::info!(reason = %open, limit = ?self.limit, "an allocation waits");
            }
            seen = Some(open);
            sleep_until(deadline.min(Instant::now() + LOOK_AGAIN)).await;
        }
    }

    /// A process of these gone pods, by UID, that has a device open which its pod had; none if there is none. The look ends at `end`.
    ///
    /// # Errors
    /// Nobody can tell, which the log and `/healthz` say.
    pub async fn look(
        &self,
        gone: &BTreeMap<String, DeviceSet>,
        end: Instant,
    ) -> Result<Option<OpenDevice>, Unseen> {
        if gone.is_empty() {
            return Ok(None);
        }
        let too_long = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut));
        let end = end.min(Instant::now() + LONGEST_LOOK);
        match timeout_at(end, self.processes.first_with_open(gone)).await.unwrap_or_else(too_long) {
            Ok(open) => {
                self.status.clear_note(HANDOVER);
                Ok(open)
            }
            Err(error) => {
                self.cannot_look(&error);
                Err(Unseen)
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
