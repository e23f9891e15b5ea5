//! Keeps one resource registered with kubelet while this plugin serves it: serve on a socket of its own, dial it, register
//! last. It begins again, with another socket, when kubelet restarts, the socket vanishes, kubelet's stream ends or kubelet
//! no longer counts the devices as allocatable. Started by `run`, once for each resource.

use std::future::pending;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use runtime::reached;
use runtime::system::FileStatus;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::allocation::engine::Engine;
use crate::kubelet::attempt::RegistrationError;
use crate::kubelet::folder::PluginFolder;
use crate::kubelet::loss::{Lost, REPLACED};
use crate::kubelet::podresources::PodResources;
use crate::kubelet::remains::remove_dead;
use crate::kubelet::serving_lock::{Before, LockError, ServingLock};
use crate::kubelet::socket::SocketServer;
use crate::kubelet::together::Together;
use crate::metrics::Metrics;
use crate::resource::AdvertisedResource;
use crate::status::Status;

/// The most time that kubelet gets to notice the end of another plugin that has let go. Before 1.37 it drops a registration that comes
/// while the older one ends, and need not tell.
const END_NOTICED: Duration = Duration::from_secs(1);
/// How long after kubelet has dropped the older plugin's devices it may still be busy with its end.
const END_DONE: Duration = Duration::from_millis(100);
/// Time between two looks at what kubelet offers, which answers a hundred questions a second.
const LOOK: Duration = Duration::from_millis(50);
/// First and longest pause before a registration is tried again that failed or did not last. One that lasted as long as the
/// longest pause did not fail.
const RETRY: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The note while this plugin serves in place of a frozen one.
const BEFORE_FROZEN: &str = "serving in place of another device plugin on this node, which gives no sign of life and may still be \
                             registered with kubelet: end its process";

/// The registration of one resource.
pub struct Registration {
    /// The name to register under and what one id of it stands for.
    pub resource: AdvertisedResource,
    /// Answers kubelet's calls.
    pub engine: Arc<Engine>,
    /// Shows what keeps the resource from being registered.
    pub status: Arc<Status>,
    /// Counts registrations.
    pub metrics: Arc<Metrics>,
    /// Tells what kubelet counts as allocatable.
    pub pod_resources: Arc<PodResources>,
    /// Where kubelet and the plugins listen.
    pub folder: PluginFolder,
    /// Time between two looks at sockets and allocatable devices.
    pub poll: Duration,
    /// Shared by the plugin's resources.
    pub together: Together,
}

impl Registration {
    /// Serves and stays registered until `shutdown`.
    pub async fn run(mut self, shutdown: CancellationToken) {
        let (mut lock, mut server) = (None, None);
        tokio::select! {
            biased;
            () = shutdown.cancelled() => {}
            () = self.take_turns(&mut lock, &mut server) => {}
        }
        self.close(&mut server).await;
        drop(lock);
    }

    /// Of several plugins the newest serves, since the others are usually about to end; one that was replaced serves again
    /// when nobody else does.
    async fn take_turns(&mut self, lock: &mut Option<ServingLock>, server: &mut Option<SocketServer>) {
        remove_dead(&self.folder, self.resource).await;
        let mut is_newest = true;
        loop {
            let lock_now = lock.insert(self.lock(is_newest).await);
            if !is_newest {
                reached("plugin: serving again");
            }
            is_newest = false;
            self.stay_registered(lock_now, server).await;
            self.close(server).await;
            *lock = None;
            self.status.clear_note(self.resource.name);
            self.status.problem(self.resource.name, REPLACED);
        }
    }

    async fn lock(&mut self, is_newest: bool) -> ServingLock {
        let path = self.folder.path.join(format!("{}.lock", self.resource.files));
        let mut wait = RETRY.0;
        loop {
            let kubelet = self.folder.kubelet().await;
            let locked = if is_newest {
                self.claim(&path).await
            } else {
                ServingLock::wait(&self.folder, &path).await
            };
            match locked {
                Ok(mut lock) => {
                    if is_newest {
                        tokio::select! {
                            biased;
                            () = self.together.wait() => {}
                            // Of two that start at one time each may have one name: who was replaced lets go at once.
                            () = self.until_replaced(&mut lock) => return lock,
                        }
                    }
                    match lock.before {
                        Before::Nobody => {}
                        Before::LetGo => {
                            reached("plugin: another plugin let go");
                            self.until_end_noticed().await;
                        }
                        Before::Frozen => {
                            reached("plugin: another plugin is frozen");
                            self.status.note(self.resource.name, BEFORE_FROZEN);
                        }
                    }
                    return lock;
                }
                Err(error) => {
                    reached("plugin: lock file not usable");
                    self.status.problem(self.resource.name, &error.to_string());
                    self.pause(wait, kubelet, None).await;
                    wait = longer(wait);
                }
            }
        }
    }

    /// Takes the place of the plugin before. The other resources wait while that still answers for this one.
    async fn claim(&self, path: &Path) -> Result<ServingLock, LockError> {
        let mut lock = ServingLock::take_place(&self.folder, path).await?;
        let _still_held = self.together.still_held();
        lock.until_let_go().await?;
        Ok(lock)
    }

    async fn until_replaced(&self, lock: &mut ServingLock) {
        while lock.keep(&self.folder).await {
            sleep(LOOK).await;
        }
    }

    /// Waits until kubelet has noticed the end of the plugin before: then it offers nothing of the resource. Meanwhile pods that ask for
    /// it fail, so no longer than that.
    async fn until_end_noticed(&self) {
        let noticed = async {
            // Of a machine without healthy devices nothing is offered anyway, which says nothing.
            let machine = self.engine.machine().filter(|machine| !machine.healthy_cores().is_empty());
            let Some(machine) = machine else { return pending().await };
            loop {
                if let Ok(offered) = self.pod_resources.allocatable(LOOK).await
                    && offered.cores(&machine.topology, self.resource).is_empty()
                {
                    return;
                }
                sleep(LOOK).await;
            }
        };
        if timeout(END_NOTICED, noticed).await.is_ok() {
            reached("plugin: end of another plugin noticed");
            sleep(END_DONE).await;
        }
    }

    /// Stays registered until another plugin serves.
    async fn stay_registered(&mut self, lock: &mut ServingLock, server: &mut Option<SocketServer>) {
        let (mut after_error, mut after_loss) = (RETRY.0, RETRY.0);
        let mut at_once = true;
        while lock.keep(&self.folder).await {
            let kubelet_before = self.folder.kubelet().await;
            let registered = self.try_register(lock, server).await;
            match (registered, server.as_mut()) {
                (Ok(kubelet), Some(current)) => {
                    self.metrics.registration(self.resource.name, true);
                    self.status.fine(self.resource.name);
                    let since = Instant::now();
                    let lost = self.until_lost(kubelet, lock, current).await;
                    lost.count();
                    self.status.problem(self.resource.name, lost.text());
                    // Before 1.37 its end would drop the next registration.
                    self.close(server).await;
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
                    error.count();
                    self.metrics.registration(self.resource.name, false);
                    self.status.problem(self.resource.name, &error.to_string());
                    self.close(server).await;
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

    fn tell_already_connected(&self, error: &RegistrationError) {
        self.metrics.already_connected(self.resource.name);
        let name = self.resource.name;
        let note = format!(
            "{name} is registered under another path, because {error}. Until kubelet restarts it may go on offering {name} \
             without a device plugin"
        );
        let events = self.engine.events.clone();
        drop(self.folder.system.spawn(async move { events.already_connected(note).await }));
    }

    /// Waits for `wait`, or until another kubelet listens than this, or another plugin serves.
    async fn pause(
        &mut self,
        wait: Duration,
        kubelet: Option<FileStatus>,
        mut lock: Option<&mut ServingLock>,
    ) {
        let end = Instant::now() + wait;
        loop {
            let now = self.folder.kubelet().await;
            if now.is_some() && now != kubelet {
                return;
            }
            if let Some(lock) = &mut lock
                && !lock.keep(&self.folder).await
            {
                return;
            }
            tokio::select! {
                // The end first: a folder that never rests must not put it off.
                biased;
                () = sleep_until(end) => return,
                () = self.folder.changed() => {}
            }
        }
    }

    /// Ends a server, if there is one. A call that is cancelled leaves the server to be closed again.
    async fn close(&self, server: &mut Option<SocketServer>) {
        if let Some(current) = server {
            current.close(&self.folder).await;
        }
        *server = None;
    }
}

fn longer(wait: Duration) -> Duration {
    (wait * 2).min(RETRY.1)
}
