//! A plugin as a process of its own, which can be frozen and killed: a thread with its own runtime.
#![allow(clippy::disallowed_types, reason = "a blocking channel stalls the runtime, as freezing does")]

use std::sync::mpsc;
use std::thread::JoinHandle;

use neuron_device_plugin::{System, run};
use tokio::runtime::Builder;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// The process. Dropping it kills it.
pub(crate) struct Process {
    freeze: tokio::sync::mpsc::UnboundedSender<oneshot::Sender<()>>,
    thaw: mpsc::Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Process {
    pub(crate) fn start(node: &Node) -> Self {
        let (freeze, mut freezes) = tokio::sync::mpsc::unbounded_channel::<oneshot::Sender<()>>();
        let (thaw, thaws) = mpsc::channel();
        let (config, api) = (node.config.clone(), node.api.clone());
        let thread = std::thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                tokio::spawn(run(System::real(), config, api.client(), CancellationToken::new()));
                while let Some(frozen) = freezes.recv().await {
                    frozen.send(()).unwrap();
                    // Nothing of the plugin goes on while its only thread waits here.
                    if thaws.recv().is_err() {
                        break;
                    }
                }
            });
        });
        Process { freeze, thaw, thread: Some(thread) }
    }

    /// As by SIGSTOP: its sockets stay open and nothing answers.
    pub(crate) async fn freeze(&self) {
        let (frozen, is_frozen) = oneshot::channel();
        self.freeze.send(frozen).unwrap();
        is_frozen.await.unwrap();
    }

    /// As by SIGCONT.
    pub(crate) fn thaw(&self) {
        self.thaw.send(()).unwrap();
    }

    /// As by SIGKILL, also while it is frozen: its sockets' files and its lock's stay behind.
    pub(crate) fn kill(self) {
        drop(self);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        (self.freeze, self.thaw) = (tokio::sync::mpsc::unbounded_channel().0, mpsc::channel().0);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}
