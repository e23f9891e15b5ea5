//! What runs beside the program, each on a thread of its own: faults in time, a load, and the supervisor that answers the program's
//! calls. All end when told to; the first that fails ends the program. Used by [`crate::exec`].

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command};
use std::thread::{self, JoinHandle};

use fake_neuron_seccomp::Filter;
use tokio::sync::{mpsc, oneshot};

use super::ExecError;
use crate::Machine;
use crate::fault::{Due, Schedule, Stop};
use crate::ioctl::{Supervisor, Visible};
use crate::load::{Load, Profile};

/// What to do where no path that the program opens can be read.
const UNREADABLE: &str = "a seccomp profile forbids process_vm_readv, by which what the program asks for is read, as a container's \
                          may: allow it there, or with --no-ioctl the program runs, and no ioctl is answered";

/// The threads that run.
#[derive(Debug)]
pub(super) struct Background {
    stop: Stop,
    /// Closed at this end to stop the supervisor.
    supervisors: Vec<UnixStream>,
    threads: Vec<JoinHandle<()>>,
    sender: mpsc::UnboundedSender<ExecError>,
    failures: mpsc::UnboundedReceiver<ExecError>,
}

impl Background {
    pub(super) fn new() -> Self {
        let (sender, failures) = mpsc::unbounded_channel();
        Self { stop: Stop::default(), supervisors: Vec::new(), threads: Vec::new(), sender, failures }
    }

    /// Carries the faults out, each in its time, and returns once those that are due at once are in force.
    ///
    /// # Errors
    /// A fault that the machine cannot have, or that is due at once and cannot be carried out.
    pub(super) async fn break_things(
        &mut self,
        machine: &Machine,
        faults: Schedule,
    ) -> Result<(), ExecError> {
        faults.faults().iter().try_for_each(|fault| machine.check_fault(fault))?;
        let mut at_once =
            faults.due().iter().filter(|(at, due)| at.is_zero() && matches!(due, Due::Strike(_))).count();
        let waits = at_once > 0;
        let (begun, begins) = oneshot::channel();
        let mut begun = Some(begun);
        let (machine, stop) = (machine.clone(), self.stop.clone());
        self.start("faults", move || {
            let told = |due, _: &_, _: Option<u32>| {
                at_once = at_once.saturating_sub(usize::from(matches!(due, Due::Strike(_))));
                if at_once == 0 {
                    // Nobody waits any more where this is one of the later ones.
                    let _ = begun.take().map(|begun| begun.send(()));
                }
            };
            Ok(faults.run(&machine, &stop, told)?)
        })?;
        if waits && begins.await.is_err() {
            return Err(self.failure().await);
        }
        Ok(())
    }

    /// Writes the counters of this load each second.
    ///
    /// # Errors
    /// No thread can be started.
    pub(super) fn put_under_load(&mut self, machine: &Machine, profile: Profile) -> Result<(), ExecError> {
        let (machine, stop) = (machine.clone(), self.stop.clone());
        self.start("load", move || Ok(Load::new(&machine, profile).run(&stop)?))
    }

    /// Starts the program under the filter and answers its calls.
    ///
    /// # Errors
    /// Of the outer kind: the program or its filter is refused. Of the inner kind: this process may not read the program's memory, or no
    /// thread can be started.
    pub(super) fn supervise(
        &mut self,
        filter: &Filter,
        command: Command,
        supervisor: Supervisor,
        visible: Visible,
    ) -> io::Result<Result<Child, ExecError>> {
        if let Err(reason) = fake_neuron_seccomp::may_read() {
            return Ok(Err(ExecError::Unsupervised { reason, way_out: UNREADABLE }));
        }
        let (ours, theirs) = UnixStream::pair()?;
        let (mut program, listener) = fake_neuron_seccomp::spawn(filter, command)?;
        let stop = OwnedFd::from(theirs);
        let started = self.start("supervisor", move || {
            supervisor.serve(listener.into(), &visible, stop.as_fd())?;
            Ok(())
        });
        if started.is_err() {
            // Nobody would answer it.
            let _ = program.kill();
        }
        self.supervisors.push(ours);
        Ok(started.map(|()| program))
    }

    /// Waits for the first thread that fails.
    pub(super) async fn failure(&mut self) -> ExecError {
        match self.failures.recv().await {
            Some(failure) => failure,
            // A sender is kept here, so this is never.
            None => std::future::pending().await,
        }
    }

    /// Ends all threads and waits until they have.
    pub(super) fn end(mut self) {
        self.stop.ask();
        self.supervisors.clear();
        for thread in self.threads {
            // One that panicked has said so itself.
            let _ = thread.join();
        }
    }

    fn start(
        &mut self,
        name: &str,
        work: impl FnOnce() -> Result<(), ExecError> + Send + 'static,
    ) -> Result<(), ExecError> {
        let sender = self.sender.clone();
        let thread = thread::Builder::new().name(name.to_owned()).spawn(move || {
            if let Err(failure) = work() {
                // Nobody listens any more when the program has ended.
                let _ = sender.send(failure);
            }
        });
        self.threads.push(thread.map_err(ExecError::refused("start a thread"))?);
        Ok(())
    }
}
