//! Keeps one resource registered with kubelet: serve first, dial the own socket, register last. It begins again when
//! kubelet restarts, the socket vanishes, kubelet's stream ends or kubelet no longer counts the devices as allocatable.
//! Started by `run`, once for each resource.

use std::sync::Arc;
use std::time::Duration;

use kubelet_api::deviceplugin::v1beta1::registration_client::RegistrationClient;
use kubelet_api::deviceplugin::v1beta1::{KUBELET_SOCKET, RegisterRequest, VERSION};
use kubelet_api::unix::{SocketError, connect};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::allocation::engine::Engine;
use crate::config::Config;
use crate::kubelet::podresources;
use crate::kubelet::service::{OPTIONS, healthy};
use crate::kubelet::socket::{ServerError, SocketServer, answers, identity};
use crate::resource::AdvertisedResource;
use crate::status::Status;

/// How long kubelet may take to answer Register; it dials back meanwhile, for up to 10 s.
const REGISTER_TIMEOUT: Duration = Duration::from_secs(15);
/// How long kubelet may take to open its stream after Register.
const STREAM_TIMEOUT: Duration = Duration::from_secs(5);
/// The time an older plugin gets to hang up on kubelet after its socket was taken. kubelet may drop a registration that
/// comes while the older one ends, and need not tell.
const OLDER_ENDS: Duration = Duration::from_secs(1);
/// How long kubelet may take to tell what is allocatable.
const ALLOCATABLE_TIMEOUT: Duration = Duration::from_secs(2);
/// Polls in a row that must find devices not allocatable: kubelet may still be at the list before.
const POLLS: u32 = 2;
/// First and longest pause before a registration is tried again that failed or did not last. One that lasted as long as the
/// longest pause did not fail.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

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
    /// kubelet did not answer in time.
    #[error("kubelet did not answer the registration within {REGISTER_TIMEOUT:?}")]
    Unanswered,
    /// kubelet accepted the registration and did not call ListAndWatch.
    #[error("kubelet did not open its device stream within {STREAM_TIMEOUT:?}")]
    NoStream,
    /// The socket is no longer in its place.
    #[error("our socket has vanished before kubelet had dialled it")]
    SocketLost,
}

/// The problem while another plugin serves on this one's socket.
const TAKEN: &str = "another device plugin serves on our socket; if this one is not about to end, Neuron's device plugin is \
                     deployed twice: remove one";

/// Why a registration did not last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
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
    /// kubelet's folders, and how often sockets and allocatable devices are polled.
    pub config: Config,
    /// Changes when kubelet's plugin folder does.
    pub folder_changed: watch::Receiver<()>,
}

impl RegistrationError {
    /// Whether kubelet does not reach the server, so that a new one may help.
    fn is_of_server(&self) -> bool {
        matches!(self, RegistrationError::Server(_) | RegistrationError::NoStream)
    }
}

impl Lost {
    fn text(self) -> &'static str {
        match self {
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
        let mut server: Option<SocketServer> = None;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.stay_registered(&mut server) => {}
        }
        close(&mut server).await;
    }

    async fn stay_registered(&mut self, server: &mut Option<SocketServer>) {
        let (mut after_error, mut after_loss) = (RETRY.0, RETRY.0);
        let mut is_first = true;
        loop {
            let kubelet_before = self.kubelet();
            let registered = self.try_register(server, is_first).await;
            is_first = false;
            match registered {
                Ok(kubelet) => {
                    self.status.fine(self.resource.name);
                    let since = Instant::now();
                    let Some(current) = server else { continue };
                    let lost = self.until_lost(kubelet, current).await;
                    self.status.problem(self.resource.name, lost.text());
                    after_error = RETRY.0;
                    if lost == Lost::NotAllocatable {
                        // Its stream must not outlive the next one's beginning.
                        close(server).await;
                    } else if since.elapsed() >= RETRY.1 {
                        after_loss = RETRY.0;
                    }
                    if lost != Lost::KubeletRestarted {
                        // Once may be chance; when it goes on, so does its cause.
                        self.pause(after_loss, kubelet).await;
                        after_loss = longer(after_loss);
                    }
                }
                Err(error) => {
                    self.status.problem(self.resource.name, &error.to_string());
                    if error.is_of_server() {
                        close(server).await;
                    }
                    self.pause(after_error, kubelet_before).await;
                    after_error = longer(after_error);
                }
            }
        }
    }

    /// Serves if nobody does, then registers; the identity of the kubelet socket that accepted it.
    async fn try_register(
        &mut self,
        server: &mut Option<SocketServer>,
        is_first: bool,
    ) -> Result<Option<u64>, RegistrationError> {
        if !server.as_ref().is_some_and(SocketServer::is_up) {
            close(server).await;
            self.serve(server, is_first).await?;
        }
        let Some(current) = server else { return Err(RegistrationError::SocketLost) };
        current.answers().await?;
        let kubelet = self.kubelet();
        self.note_kubelet(kubelet);
        let (opened, mut streams) = (current.streams.borrow().opened, current.streams.clone());
        let registered = async {
            timeout(REGISTER_TIMEOUT, self.register()).await.map_err(|_| RegistrationError::Unanswered)??;
            // Until kubelet listens, nothing is advertised.
            let listening = streams.wait_for(|streams| streams.opened > opened);
            match timeout(STREAM_TIMEOUT, listening).await {
                Ok(Ok(_)) => Ok(kubelet),
                _ => Err(RegistrationError::NoStream),
            }
        };
        tokio::select! {
            registered = registered => registered,
            () = self.until_down(current) => Err(RegistrationError::SocketLost),
        }
    }

    /// The newer of two plugins serves, since the other is usually about to end. A plugin that starts takes the socket
    /// and lets the older one hang up; one that has lost its socket waits until nobody answers there any more.
    async fn serve(&mut self, server: &mut Option<SocketServer>, is_first: bool) -> Result<(), ServerError> {
        let socket = self.config.plugin_dir().join(self.resource.socket);
        let mut has_older = answers(&socket).await;
        while has_older && !is_first {
            self.status.problem(self.resource.name, TAKEN);
            self.pause(self.config.poll, self.kubelet()).await;
            has_older = answers(&socket).await;
        }
        *server = Some(SocketServer::start(self.resource, &self.engine, &self.config.plugin_dir())?);
        if has_older {
            sleep(OLDER_ENDS).await;
        }
        Ok(())
    }

    /// Waits until the server is not reached on its socket.
    async fn until_down(&self, server: &SocketServer) {
        let mut folder_changed = self.folder_changed.clone();
        while server.is_up() {
            tokio::select! {
                () = sleep(self.config.poll) => {}
                Ok(()) = folder_changed.changed() => {}
            }
        }
    }

    async fn register(&self) -> Result<(), RegistrationError> {
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.resource.socket.to_owned(),
            resource_name: self.resource.name.to_owned(),
            options: Some(OPTIONS),
        };
        let mut client =
            RegistrationClient::new(connect(&self.config.plugin_dir().join(KUBELET_SOCKET)).await?);
        client.register(request).await.map(drop).map_err(RegistrationError::Refused)
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
    async fn until_lost(&mut self, kubelet: Option<u64>, server: &mut SocketServer) -> Lost {
        let mut polls = interval_at(Instant::now() + self.config.poll, self.config.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut missing = 0;
        loop {
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

    /// Waits for `wait`, or until another kubelet listens than this, or whoever has the socket has gone.
    async fn pause(&mut self, wait: Duration, kubelet: Option<u64>) {
        let end = Instant::now() + wait;
        let socket = self.config.plugin_dir().join(self.resource.socket);
        let is_taken = socket.exists();
        loop {
            self.folder_changed.mark_unchanged();
            let now = self.kubelet();
            if now.is_some() && now != kubelet || is_taken && !socket.exists() {
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
