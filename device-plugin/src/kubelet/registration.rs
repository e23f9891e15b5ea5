//! Keeps one resource registered with kubelet while this plugin serves it: serve on a socket of its own, dial it, register
//! last. It begins again, with another socket, when kubelet restarts, the socket vanishes, kubelet's stream ends or kubelet
//! no longer counts the devices as allocatable. Started by `run`, once for each resource.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::{KUBELET_SOCKET, RegisterRequest, VERSION};
use kubelet_api::unix::{SocketError, connect};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use crate::allocation::engine::Engine;
use crate::config::Config;
use crate::kubelet::podresources;
use crate::kubelet::service::{OPTIONS, healthy};
use crate::kubelet::serving_lock::{Before, ServingLock};
use crate::kubelet::socket::{ServerError, SocketServer, identity, remove_dead};
use crate::metrics::Metrics;
use crate::resource::AdvertisedResource;
use crate::status::Status;

/// How long kubelet may take to answer Register; it dials back meanwhile, for up to 10 s.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long kubelet may take to open its stream after Register.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5);
/// The time kubelet gets to notice the end of another plugin that has let go. Before 1.37 it drops a registration that comes
/// while the older one ends, and need not tell.
const END_NOTICED: Duration = Duration::from_secs(1);
/// How long kubelet may take to tell what is allocatable.
const ALLOCATABLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Polls in a row that must find devices not allocatable: kubelet may still be at the list before.
const POLLS: u32 = 2;
/// First and longest pause before a registration is tried again that failed or did not last. One that lasted as long as the
/// longest pause did not fail.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// How kubelet 1.37 and later begin to say that they still hold the path of a socket.
const ALREADY_CONNECTED: &str = "device plugin already connected";

/// Why a resource is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// The resource is not served.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// kubelet is away.
    #[error(transparent)]
    Away(#[from] SocketError),
    /// kubelet refused.
    #[error("kubelet refused the registration: {0}")]
    Refused(tonic::Status),
    /// kubelet still holds the path of the socket, and will until it restarts.
    #[error("kubelet still holds {}, on which an earlier server was", socket.display())]
    AlreadyConnected {
        /// Absolute path of the socket.
        socket: PathBuf,
    },
    /// kubelet did not answer in time.
    #[error("kubelet did not answer the registration within {REGISTER_TIMEOUT:?}")]
    Unanswered,
    /// kubelet accepted the registration and did not call ListAndWatch.
    #[error("kubelet did not open its device stream within {STREAM_TIMEOUT:?}")]
    NoStream,
    /// The socket is no longer in its place, or another plugin serves.
    #[error("our socket has vanished before kubelet had dialled it, or another plugin serves")]
    SocketLost,
}

/// The problem while another plugin serves.
const REPLACED: &str = "another device plugin serves on this node; if this one is not about to end, Neuron's device plugin is \
                        deployed twice: remove one";

/// The note while this plugin serves in place of a frozen one.
const BEFORE_FROZEN: &str = "serving in place of another device plugin on this node, which gives no sign of life and may still be \
                             registered with kubelet: end its process";

/// Why a registration did not last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    Replaced,
    KubeletRestarted,
    SocketVanished,
    StreamEnded,
    NotAllocatable,
}

/// The registration of one resource.
pub struct Registration {
    /// The name to register under and what one id of it stands for.
    pub resource: AdvertisedResource,
    /// Answers kubelet's calls.
    pub engine: Arc<Engine>,
    /// Shows what keeps the resource from being registered.
    pub status: Arc<Status>,
    /// Counts refused registrations.
    pub metrics: Arc<Metrics>,
    /// kubelet's folders, and how often sockets and allocatable devices are polled.
    pub config: Config,
    /// Changes when kubelet's plugin folder does.
    pub folder_changed: watch::Receiver<()>,
}

impl Lost {
    fn text(self) -> &'static str {
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
}

impl Registration {
    /// Serves and stays registered until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        remove_dead(&self.config.plugin_dir(), self.resource).await;
        let (mut lock, mut server) = (None, None);
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.take_turns(&mut lock, &mut server) => {}
        }
        close(&mut server).await;
        drop(lock);
    }

    /// Of several plugins the newest serves, since the others are usually about to end; one that was replaced serves again
    /// when nobody else does.
    async fn take_turns(&mut self, lock: &mut Option<ServingLock>, server: &mut Option<SocketServer>) {
        let mut is_newest = true;
        loop {
            let lock_now = lock.insert(self.lock(is_newest).await);
            is_newest = false;
            self.stay_registered(lock_now, server).await;
            close(server).await;
            *lock = None;
            self.status.clear_note(self.resource.name);
            self.status.problem(self.resource.name, REPLACED);
        }
    }

    async fn lock(&mut self, is_newest: bool) -> ServingLock {
        let path = self.config.plugin_dir().join(format!("{}.lock", self.resource.files));
        let mut wait = RETRY.0;
        loop {
            let kubelet = self.kubelet();
            let locked =
                if is_newest { ServingLock::claim(&path).await } else { ServingLock::wait(&path).await };
            match locked {
                Ok(lock) => {
                    match lock.before {
                        Before::Nobody => {}
                        Before::LetGo => sleep(END_NOTICED).await,
                        Before::Frozen => self.status.note(self.resource.name, BEFORE_FROZEN),
                    }
                    return lock;
                }
                Err(error) => {
                    self.status.problem(self.resource.name, &error.to_string());
                    self.pause(wait, kubelet, None).await;
                    wait = longer(wait);
                }
            }
        }
    }

    /// Stays registered until another plugin serves.
    async fn stay_registered(&mut self, lock: &mut ServingLock, server: &mut Option<SocketServer>) {
        let (mut after_error, mut after_loss) = (RETRY.0, RETRY.0);
        let mut at_once = true;
        while lock.keep() {
            let kubelet_before = self.kubelet();
            let registered = self.try_register(lock, server).await;
            match (registered, server.as_mut()) {
                (Ok(kubelet), Some(current)) => {
                    self.status.fine(self.resource.name);
                    let since = Instant::now();
                    let lost = self.until_lost(kubelet, lock, current).await;
                    self.status.problem(self.resource.name, lost.text());
                    // Before 1.37 its end would drop the next registration.
                    close(server).await;
                    (after_error, at_once) = (RETRY.0, true);
                    if lost != Lost::NotAllocatable && since.elapsed() >= RETRY.1 {
                        after_loss = RETRY.0;
                    }
                    if lost != Lost::KubeletRestarted {
                        // Once may be chance; when it goes on, so does its cause.
                        self.pause(after_loss, kubelet, Some(lock)).await;
                        after_loss = longer(after_loss);
                    }
                }
                (Ok(_), None) => {}
                (Err(error), _) => {
                    self.status.problem(self.resource.name, &error.to_string());
                    close(server).await;
                    if let RegistrationError::AlreadyConnected { .. } = error {
                        self.tell_already_connected(&error);
                        if std::mem::take(&mut at_once) {
                            continue;
                        }
                    }
                    self.pause(after_error, kubelet_before, Some(lock)).await;
                    after_error = longer(after_error);
                }
            }
        }
    }

    /// Serves on a new socket, then registers; the identity of the kubelet socket that was asked. kubelet hears of each socket
    /// once: from 1.37 on it never frees the path of a registration that it refused.
    async fn try_register(
        &mut self,
        lock: &mut ServingLock,
        server: &mut Option<SocketServer>,
    ) -> Result<Option<u64>, RegistrationError> {
        let folder = self.config.plugin_dir();
        let kubelet = self.kubelet();
        let dialled = timeout(REGISTER_TIMEOUT, connect(&folder.join(KUBELET_SOCKET))).await;
        let channel = dialled.map_err(|_| RegistrationError::Unanswered)??;
        let current = server.insert(SocketServer::start(self.resource, &self.engine, &folder)?);
        current.answers().await?;
        self.note_kubelet(kubelet);
        tokio::select! {
            registered = self.register(channel, current) => registered.map(|()| kubelet),
            () = self.until_down(current, lock) => Err(RegistrationError::SocketLost),
        }
    }

    /// Registers and waits until kubelet listens; before, nothing is advertised.
    async fn register(&self, kubelet: Channel, server: &SocketServer) -> Result<(), RegistrationError> {
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: server.name(),
            resource_name: self.resource.name.to_owned(),
            options: Some(OPTIONS),
        };
        let mut kubelet = RegistrationClient::new(kubelet);
        let answer = timeout(REGISTER_TIMEOUT, kubelet.register(request)).await;
        answer.map_err(|_| RegistrationError::Unanswered)?.map_err(|refusal| {
            if refusal.message().starts_with(ALREADY_CONNECTED) {
                RegistrationError::AlreadyConnected { socket: server.socket.clone() }
            } else {
                RegistrationError::Refused(refusal)
            }
        })?;
        let mut streams = server.streams.clone();
        match timeout(STREAM_TIMEOUT, streams.wait_for(|streams| streams.opened > 0)).await {
            Ok(Ok(_)) => Ok(()),
            _ => Err(RegistrationError::NoStream),
        }
    }

    fn tell_already_connected(&self, error: &RegistrationError) {
        self.metrics.already_connected(self.resource.name);
        let name = self.resource.name;
        let note = format!(
            "{name} is registered under another path, because {error}. Until kubelet restarts it may go on offering {name} \
             without a device plugin"
        );
        let events = self.engine.events.clone();
        tokio::spawn(async move { events.already_connected(note).await });
    }

    /// Waits until the server is not reached on its socket, or another plugin serves.
    async fn until_down(&self, server: &SocketServer, lock: &mut ServingLock) {
        let mut folder_changed = self.folder_changed.clone();
        while server.is_up() && lock.keep() {
            tokio::select! {
                () = sleep(self.config.poll) => {}
                Ok(()) = folder_changed.changed() => {}
            }
        }
    }

    /// The identity of kubelet's socket; none while there is none.
    fn kubelet(&self) -> Option<u64> {
        identity(&self.config.plugin_dir().join(KUBELET_SOCKET))
    }

    /// Tells the ledger when another kubelet process listens, which knows only what the last one had written down.
    fn note_kubelet(&self, kubelet: Option<u64>) {
        let mut state = self.engine.state();
        if kubelet.is_some() && state.kubelet != kubelet {
            if state.kubelet.is_some() {
                state.ledger.kubelet_restarted();
            }
            state.kubelet = kubelet;
        }
    }

    /// Waits until the registration no longer holds, and says why.
    async fn until_lost(
        &mut self,
        kubelet: Option<u64>,
        lock: &mut ServingLock,
        server: &mut SocketServer,
    ) -> Lost {
        let mut polls = interval_at(Instant::now() + self.config.poll, self.config.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missing = 0;
        loop {
            if !lock.keep() {
                return Lost::Replaced;
            }
            // A kubelet that goes on without its socket keeps the registration.
            if self.kubelet().is_some_and(|now| Some(now) != kubelet) {
                return Lost::KubeletRestarted;
            }
            if !server.is_up() {
                return Lost::SocketVanished;
            }
            if server.streams.borrow_and_update().open == 0 {
                return Lost::StreamEnded;
            }
            if missing >= POLLS {
                return Lost::NotAllocatable;
            }
            tokio::select! {
                _ = polls.tick() => missing = if self.is_allocatable().await { 0 } else { missing + 1 },
                Ok(()) = self.folder_changed.changed() => {}
                Ok(()) = server.streams.changed() => {}
            }
        }
    }

    /// Whether kubelet counts every healthy device as allocatable. It may not although the stream is open: where an earlier
    /// plugin's stream ends during a registration, kubelet drops what was just listed. A kubelet that does not tell is
    /// trusted.
    async fn is_allocatable(&self) -> bool {
        let Some(machine) = self.engine.machine() else { return true };
        let advertised = healthy(&machine, self.resource.unit);
        let name = self.resource.name;
        match podresources::allocatable(&self.config.kubelet_dir, name, ALLOCATABLE_TIMEOUT).await {
            Ok(allocatable) => advertised.is_subset(&allocatable),
            Err(error) => {
                tracing::debug!(resource = name, reason = %error, "kubelet does not tell what is allocatable");
                true
            }
        }
    }

    /// Waits for `wait`, or until another kubelet listens than this, or another plugin serves.
    async fn pause(&mut self, wait: Duration, kubelet: Option<u64>, mut lock: Option<&mut ServingLock>) {
        let end = Instant::now() + wait;
        loop {
            self.folder_changed.mark_unchanged();
            let now = self.kubelet();
            if now.is_some() && now != kubelet || lock.as_mut().is_some_and(|lock| !lock.keep()) {
                return;
            }
            tokio::select! {
                () = sleep_until(end) => return,
                Ok(()) = self.folder_changed.changed() => {}
            }
        }
    }
}

fn longer(wait: Duration) -> Duration {
    (wait * 2).min(RETRY.1)
}

/// Ends a server, if there is one. A call that is cancelled leaves the server to be closed again.
async fn close(server: &mut Option<SocketServer>) {
    if let Some(current) = server {
        current.close().await;
    }
    *server = None;
}
