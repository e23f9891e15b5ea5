//! What a case has in its hands on either kind of node: a plugin that runs, a container, a signal. Used by `stage` and by both that
//! stand behind it.

use k8s_openapi::api::core::v1::Pod;

/// A plugin under test that runs, or is about to.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// What tells it from the one after it: its pod's UID, or a number of its own.
    pub(crate) id: String,
    /// Whether it is said to work.
    pub(crate) is_ready: bool,
    /// How often it has restarted.
    pub(crate) restarts: i32,
    /// Its pod, on kind.
    pub(crate) pod: Option<Pod>,
}

/// A container of a case.
pub(crate) struct ContainerOf<'a> {
    /// Its pod.
    pub(crate) pod: &'a Pod,
    /// Its name.
    pub(crate) name: &'a str,
    /// Its id, as its pod's status had it.
    pub(crate) id: Option<&'a str>,
}

/// What is sent to a plugin's processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    Kill,
    Stop,
    Continue,
    Terminate,
}

impl Signal {
    /// Its name without `SIG`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Signal::Kill => "KILL",
            Signal::Stop => "STOP",
            Signal::Continue => "CONT",
            Signal::Terminate => "TERM",
        }
    }
}
