//! How long a watch of the cluster's own parts waits after an error. Used by the scheduler's and the kubelets' watches.

use std::time::Duration;

use kube::runtime::utils::{Backoff, ResetTimerBackoff};
use runtime::System;

/// client-go's first and longest wait (`reflector.go`), which kube's own back-off has as well.
const RETRY: (Duration, Duration) = (Duration::from_millis(800), Duration::from_secs(30));
/// A watch that has gone well for this long begins again with the first wait.
const RESET: Duration = Duration::from_secs(120);

/// As [`kube::runtime::watcher::DefaultBackoff`], with the chance of a [`System`].
pub(crate) fn watch_backoff(system: &System) -> impl Backoff + use<> {
    ResetTimerBackoff::new(Jittered { system: system.clone(), next: RETRY.0 }, RESET)
}

/// Doubles each time, and adds up to as much again.
struct Jittered {
    system: System,
    next: Duration,
}

impl Iterator for Jittered {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let jitter = self.system.random() as f64 / u64::MAX as f64;
        let wait = self.next.mul_f64(1.0 + jitter);
        self.next = (self.next * 2).min(RETRY.1);
        Some(wait)
    }
}

impl Backoff for Jittered {
    fn reset(&mut self) {
        self.next = RETRY.0;
    }
}
