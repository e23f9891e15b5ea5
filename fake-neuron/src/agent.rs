//! Answers opens and ioctls of the containers of a node whose pods have the profile of [`profile`]: the container runtime hands each
//! container's listener to the socket of [`Agent`]. Run by `fake-neuron agent`, which is a DaemonSet (deploy/fake-neuron-agent.yml).
//!
//! A container sees the devices whose nodes stand in its `/dev`. All containers share the node's machine, so cores that one has
//! reserved are busy for the others.
//!
//! **Absent**, no container with the profile starts: the runtime finds nobody at the socket, and kubelet says so in the pod's events
//! and tries again. **Ended** while containers run, every open and ioctl of those containers fails with `ENOSYS`, and nobody can take
//! them over: the kernel ends a listener with its last holder. An agent that is asked to end reports each ([`Report::Left`]); so does the
//! next one ([`Report::Lost`]), which finds them in a file beside its socket, for the one before it may have been killed. Other pods never
//! notice.

mod containers;
mod event;
mod message;
mod profile;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fake_neuron_seccomp::{Event, Listener, receive};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::mpsc::UnboundedSender;

use crate::ioctl::{Served, Supervisor, SupervisorError, Visible};
use crate::machine::description::Description;
use crate::{DRIVER_MAJOR, Machine, MachineError};

pub use containers::{Container, Containers};
pub use event::lost_event;
pub use profile::{install, profile};

/// How long a runtime may take to say what it wants.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// No runtime says more about a container.
const LONGEST_MESSAGE: usize = 1 << 20;

/// What happened, for the log and for events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A container that an earlier agent served still runs, and nobody can answer it any more.
    Lost(Container),
    /// A container is served from now on.
    Serving(Container),
    /// A container has ended.
    Ended(Container),
    /// The agent ends while a container runs.
    Left(Container),
    /// A container is no longer served although it may run: why.
    Failed(Container, String),
    /// Whoever connected wanted something else: what.
    NotUnderstood(String),
}

/// Why an agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    /// The socket, or a file beside it, cannot be used.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or socket.
        path: PathBuf,
        /// The system's answer.
        reason: io::Error,
    },
    /// Another agent answers at the socket.
    #[error("another agent answers at {}: end it first, or give another --socket", .0.display())]
    Taken(PathBuf),
}

/// Serves containers.
#[derive(Debug)]
pub struct Agent {
    socket: PathBuf,
    listener: UnixListener,
    root: PathBuf,
    containers: Arc<Containers>,
    reports: UnboundedSender<Report>,
    current: Mutex<Option<(Description, Supervisor)>>,
}

impl Agent {
    /// Listens at `socket`, whose folder is made if missing, for containers of the node whose machine stands under `root` (now or
    /// later), and reports the containers that an earlier agent has left.
    ///
    /// # Errors
    /// Another agent listens there, or the file system refuses.
    pub fn start(socket: &Path, root: &Path, reports: UnboundedSender<Report>) -> Result<Agent, AgentError> {
        let failed = |action, path: &Path| {
            let path = path.to_owned();
            move |reason| AgentError::Io { action, path, reason }
        };
        if let Some(folder) = socket.parent() {
            fs::create_dir_all(folder).map_err(failed("make", folder))?;
        }
        if UnixStream::connect(socket).is_ok() {
            return Err(AgentError::Taken(socket.to_owned()));
        }
        match fs::remove_file(socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("remove", socket)(error));
            }
            _ => {}
        }
        let listener = UnixListener::bind(socket).map_err(failed("listen at", socket))?;
        // Only root may ask: the listener that comes with a request is trusted to be a container's.
        fs::set_permissions(socket, fs::Permissions::from_mode(0o600)).map_err(failed("protect", socket))?;
        let (containers, lost) = Containers::beside(socket);
        for container in lost {
            // A receiver that has gone wants no reports.
            let _ = reports.send(Report::Lost(container));
        }
        Ok(Agent {
            socket: socket.to_owned(),
            listener,
            root: root.to_owned(),
            containers: Arc::new(containers),
            reports,
            current: Mutex::new(None),
        })
    }

    /// The containers being served, for others to look at.
    pub fn containers(&self) -> Arc<Containers> {
        Arc::clone(&self.containers)
    }

    /// Serves until `stop` becomes readable or is closed at its other end. Each container has a thread.
    ///
    /// # Errors
    /// The socket fails.
    pub fn run(&self, stop: BorrowedFd<'_>) -> Result<(), AgentError> {
        let ended = thread::scope(|scope| {
            loop {
                let mut files = [
                    PollFd::new(&self.listener, PollFlags::IN),
                    PollFd::from_borrowed_fd(stop, PollFlags::IN),
                ];
                match poll(&mut files, None) {
                    Err(rustix::io::Errno::INTR) => continue,
                    Err(error) => return Err(io::Error::from(error)),
                    Ok(_) => {}
                }
                if !files[1].revents().is_empty() {
                    return Ok(());
                }
                let (connection, _) = self.listener.accept()?;
                scope.spawn(move || self.serve(&connection, stop));
            }
        });
        let _ = fs::remove_file(&self.socket);
        ended.map_err(|reason| AgentError::Io { action: "listen at", path: self.socket.clone(), reason })
    }

    fn report(&self, report: Report) {
        // A receiver that has gone wants no reports.
        let _ = self.reports.send(report);
    }

    fn serve(&self, connection: &UnixStream, stop: BorrowedFd<'_>) {
        let (container, listener) = match asked_for(connection) {
            Ok(Some(asked)) => asked,
            Ok(None) => return,
            Err(reason) => return self.report(Report::NotUnderstood(reason)),
        };
        self.containers.add(&container);
        self.report(Report::Serving(container.clone()));
        match self.answer(&container, listener, stop) {
            // The container stays in the list: the next agent shall know.
            Ok(Served::Stopped) => self.report(Report::Left(container)),
            Ok(Served::ToTheEnd) => {
                self.containers.remove(&container);
                self.report(Report::Ended(container));
            }
            Err(error) => {
                self.containers.remove(&container);
                self.report(Report::Failed(container, error.to_string()));
            }
        }
    }

    fn answer(
        &self,
        container: &Container,
        listener: OwnedFd,
        stop: BorrowedFd<'_>,
    ) -> Result<Served, SupervisorError> {
        let visible: Visible = container.devices.iter().copied().collect();
        match self.supervisor() {
            Ok(supervisor) => supervisor.serve(listener, &visible, stop),
            Err(error) => {
                tracing::info!(container = container.id, %error, "a container without hardware");
                pass_on(listener, stop)
            }
        }
    }

    /// The supervisor of the machine that stands now; another machine's reservations end with it.
    fn supervisor(&self) -> Result<Supervisor, MachineError> {
        let machine = Machine::open(&self.root)?;
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((description, supervisor)) = &*current
            && description == machine.description()
        {
            return Ok(supervisor.clone());
        }
        let supervisor = Supervisor::new(&machine);
        *current = Some((machine.description().clone(), supervisor.clone()));
        Ok(supervisor)
    }
}

/// The container that a runtime wants served, and its listener; none where somebody only looks whether an agent answers.
fn asked_for(connection: &UnixStream) -> Result<Option<(Container, OwnedFd)>, String> {
    let unreadable = |error: io::Error| format!("the request cannot be read: {error}");
    connection.set_read_timeout(Some(MESSAGE_TIMEOUT)).map_err(unreadable)?;
    let (bytes, descriptors) = receive(connection, LONGEST_MESSAGE, message::is_whole).map_err(unreadable)?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let request = message::parse(&bytes)?;
    let listener =
        descriptors.into_iter().nth(request.listener).ok_or("no listener came with the request")?;
    let visible = Visible::to_process(request.container.pid, DRIVER_MAJOR);
    Ok(Some((Container { devices: visible.pairs().collect(), ..request.container }, listener)))
}

/// Lets every call go through: where no machine stands there is nothing to answer.
fn pass_on(listener: OwnedFd, stop: BorrowedFd<'_>) -> Result<Served, SupervisorError> {
    let listener = Listener::from(listener);
    loop {
        match listener.wait(stop.as_fd(), None)? {
            Event::Call => {
                if let Some(call) = listener.receive()? {
                    listener.pass_on(&call)?;
                }
            }
            Event::TimedOut => {}
            Event::Ended => return Ok(Served::ToTheEnd),
            Event::Stopped => return Ok(Served::Stopped),
        }
    }
}
