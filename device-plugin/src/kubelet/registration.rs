//! Keeps one resource registered with kubelet: serve first, dial oneself, register last; once more when kubelet
//! restarts, when our socket vanishes, when kubelet's stream ends or when kubelet no longer offers what it was told.

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
use crate::kubelet::socket::{Serving, ServingError, answers, identity};
use crate::resource::Offer;
use crate::status::Status;

/// Longest that kubelet may take to answer Register; it dials us back meanwhile, for up to 10 s.
const REGISTER_LIMIT: Duration = Duration::from_secs(15);
/// Longest that kubelet may take to open its stream after Register.
const STREAM_LIMIT: Duration = Duration::from_secs(5);
/// How long an older plugin, whose socket was taken, may take to hang up on kubelet. A registration that meets its end
/// may be dropped with it, which kubelet need not tell.
const OLDER_ENDS: Duration = Duration::from_secs(1);
/// Longest that kubelet may take to say what it offers.
const OFFERED_LIMIT: Duration = Duration::from_secs(2);
/// Looks in a row that must find kubelet not offering what it was told: it may still be at the last list.
const LOOKS: u32 = 2;
/// First and longest wait before a registration that failed or did not last is tried again. What lasted as long as the
/// longest wait is no failure.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// Why a resource is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegistrationError {
    /// It is not served.
    #[error(transparent)]
    Serving(#[from] ServingError),
    /// kubelet is away.
    #[error(transparent)]
    Away(#[from] SocketError),
    /// kubelet does not want it.
    #[error("kubelet refused the registration: {0}")]
    Refused(tonic::Status),
    /// kubelet does not answer.
    #[error("kubelet did not answer the registration within {REGISTER_LIMIT:?}")]
    Unanswered,
    /// kubelet took it and does not call us.
    #[error("kubelet did not open its device stream within {STREAM_LIMIT:?}")]
    NotListenedTo,
    /// Another file is where our socket was, or none.
    #[error("our socket has vanished before kubelet had dialled it")]
    SocketLost,
}

/// What is said while another plugin serves on our socket.
const TAKEN: &str = "another device plugin serves on our socket; if this one is not about to end, Neuron's device plugin is \
                     deployed twice: remove one";

/// Why kubelet no longer has a resource that was registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lost {
    KubeletRestarted,
    SocketVanished,
    StreamEnded,
    NotOffered,
}

/// One resource on its way to kubelet.
pub struct Registration {
    /// What is offered.
    pub offer: Offer,
    /// Who answers.
    pub engine: Arc<Engine>,
    /// Where problems are said.
    pub status: Arc<Status>,
    /// Where kubelet's folders are, and how often sockets and what kubelet offers are looked at.
    pub config: Config,
    /// Told when kubelet's plugin folder changes.
    pub folder_changed: watch::Receiver<()>,
}

impl RegistrationError {
    /// Whether kubelet does not reach the server: another one may.
    fn is_of_our_server(&self) -> bool {
        matches!(self, RegistrationError::Serving(_) | RegistrationError::NotListenedTo)
    }
}

impl Lost {
    fn text(self) -> &'static str {
        match self {
            Lost::KubeletRestarted => "kubelet has restarted; registering again",
            Lost::SocketVanished => "our socket has vanished; serving and registering again",
            Lost::StreamEnded => "kubelet's device stream has ended; registering again",
            Lost::NotOffered => "kubelet does not offer what it was told; serving and registering again",
        }
    }
}

impl Registration {
    /// Serves and stays registered until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let mut serving: Option<Serving> = None;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = self.stay_registered(&mut serving) => {}
        }
        if let Some(mut serving) = serving {
            serving.close().await;
        }
    }

    async fn stay_registered(&mut self, serving: &mut Option<Serving>) {
        let (mut after_error, mut after_loss) = (RETRY.0, RETRY.0);
        let mut is_first = true;
        loop {
            let kubelet_before = self.kubelet();
            let round = self.round(serving, is_first).await;
            is_first = false;
            match round {
                Ok(kubelet) => {
                    self.status.fine(self.offer.name);
                    tracing::info!("{} is registered", self.offer.name);
                    let since = Instant::now();
                    let Some(current) = serving else { continue };
                    let lost = self.until_lost(kubelet, current).await;
                    self.status.problem(self.offer.name, lost.text());
                    after_error = RETRY.0;
                    if lost == Lost::NotOffered {
                        // Its stream must not outlive the next one's beginning.
                        close(serving).await;
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
                    self.status.problem(self.offer.name, &error.to_string());
                    if error.is_of_our_server() {
                        close(serving).await;
                    }
                    self.pause(after_error, kubelet_before).await;
                    after_error = longer(after_error);
                }
            }
        }
    }

    /// Serves if nobody does, then registers; the identity of the kubelet socket that took it.
    async fn round(
        &mut self,
        serving: &mut Option<Serving>,
        is_first: bool,
    ) -> Result<Option<u64>, RegistrationError> {
        if !serving.as_ref().is_some_and(Serving::is_up) {
            close(serving).await;
            self.serve(serving, is_first).await?;
        }
        let Some(current) = serving else { return Err(RegistrationError::SocketLost) };
        current.answers().await?;
        let kubelet = self.kubelet();
        self.meet(kubelet);
        let (opened, mut streams) = (current.streams.borrow().opened, current.streams.clone());
        let registered = async {
            timeout(REGISTER_LIMIT, self.register()).await.map_err(|_| RegistrationError::Unanswered)??;
            // Until kubelet listens, nothing of ours is advertised.
            let listening = streams.wait_for(|streams| streams.opened > opened);
            match timeout(STREAM_LIMIT, listening).await {
                Ok(Ok(_)) => Ok(kubelet),
                _ => Err(RegistrationError::NotListenedTo),
            }
        };
        tokio::select! {
            registered = registered => registered,
            () = self.until_down(current) => Err(RegistrationError::SocketLost),
        }
    }

    /// Of two plugins the newer one serves: usually the other is about to end. One that starts takes the socket, and lets
    /// the older one hang up; one that has lost it waits until nobody answers there any more.
    async fn serve(&mut self, serving: &mut Option<Serving>, is_first: bool) -> Result<(), ServingError> {
        let socket = self.config.plugin_dir().join(self.offer.socket);
        let mut has_older = answers(&socket).await;
        while has_older && !is_first {
            self.status.problem(self.offer.name, TAKEN);
            self.pause(self.config.poll, self.kubelet()).await;
            has_older = answers(&socket).await;
        }
        *serving = Some(Serving::start(self.offer, &self.engine, &self.config.plugin_dir())?);
        if has_older {
            sleep(OLDER_ENDS).await;
        }
        Ok(())
    }

    /// Waits until the server is not reached on its socket.
    async fn until_down(&self, serving: &Serving) {
        let mut folder_changed = self.folder_changed.clone();
        while serving.is_up() {
            tokio::select! {
                () = sleep(self.config.poll) => {}
                Ok(()) = folder_changed.changed() => {}
            }
        }
    }

    async fn register(&self) -> Result<(), RegistrationError> {
        let request = RegisterRequest {
            version: VERSION.to_owned(),
            endpoint: self.offer.socket.to_owned(),
            resource_name: self.offer.name.to_owned(),
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

    /// Tells the ledger when another kubelet process listens: it knows only what the last one had written down.
    fn meet(&self, kubelet: Option<u64>) {
        let mut books = self.engine.books();
        if kubelet.is_some() && books.kubelet != kubelet {
            if books.kubelet.is_some() {
                books.ledger.kubelet_restarted();
            }
            books.kubelet = kubelet;
        }
    }

    /// Waits until kubelet no longer has us, and says why.
    async fn until_lost(&mut self, kubelet: Option<u64>, serving: &mut Serving) -> Lost {
        let mut polls = interval_at(Instant::now() + self.config.poll, self.config.poll);
        polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = 0;
        loop {
            // Without a socket a kubelet that goes on still has us.
            if self.kubelet().is_some_and(|now| Some(now) != kubelet) {
                return Lost::KubeletRestarted;
            }
            if !serving.is_up() {
                return Lost::SocketVanished;
            }
            if serving.streams.borrow_and_update().open == 0 {
                return Lost::StreamEnded;
            }
            if looks >= LOOKS {
                return Lost::NotOffered;
            }
            tokio::select! {
                _ = polls.tick() => looks = if self.is_offered().await { 0 } else { looks + 1 },
                Ok(()) = self.folder_changed.changed() => {}
                Ok(()) = serving.streams.changed() => {}
            }
        }
    }

    /// Whether kubelet offers what it was told. It may not although our stream is open: where an earlier plugin's stream
    /// ends while we register, kubelet drops what we have just listed. A kubelet that does not say is trusted.
    async fn is_offered(&self) -> bool {
        let Some(machine) = self.engine.machine() else { return true };
        let told = healthy(&machine, self.offer.resource);
        match podresources::offered(&self.config.kubelet_dir, self.offer.name, OFFERED_LIMIT).await {
            Ok(offered) => told.is_subset(&offered),
            Err(error) => {
                tracing::debug!("what kubelet offers of {} is not known: {error}", self.offer.name);
                true
            }
        }
    }

    /// Waits for so long, or until another kubelet listens than this, or whoever has our socket has gone.
    async fn pause(&mut self, wait: Duration, kubelet: Option<u64>) {
        let end = Instant::now() + wait;
        let socket = self.config.plugin_dir().join(self.offer.socket);
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

/// Ends a server, if there is one. Where this is cut short, the server is still there to be ended.
async fn close(serving: &mut Option<Serving>) {
    if let Some(current) = serving {
        current.close().await;
    }
    *serving = None;
}
