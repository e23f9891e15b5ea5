//! Runs `neuron-workload` containers on the embedded cluster: what the real one would print, as a value.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fake_cluster::kubelet::{ContainerEnd, ContainerRun, ContainerRuntime, ContainerStart};
use fake_neuron::fault::Fault;
use fake_neuron::ioctl::{Reserved, discover};

use neuron_workload::container::reservation;
use neuron_workload::{DriverAnswers, Report, Workload};

use crate::simulated_machine::SimulatedMachine;

/// The profile with which `fake-neuron agent` answers a container's ioctls (`deploy/fake-neuron-agent.yml`).
const ANSWERED_PROFILE: &str = "fake-neuron.json";

/// Every container is a `neuron-workload`, whatever its image says.
pub(super) struct WorkloadRuntime {
    machine: Arc<SimulatedMachine>,
    reserved: Mutex<Reserved<Holder>>,
}

/// A container, by its pod's UID and its own name.
type Holder = (String, String);

impl WorkloadRuntime {
    /// The runtime of the node with this machine.
    pub(super) fn new(machine: Arc<SimulatedMachine>) -> Self {
        let reserved = Mutex::new(Reserved::of(machine.blueprint()));
        Self { machine, reserved }
    }

    /// Every container has ended with its node.
    pub(super) fn lose_all(&self) {
        *self.reserved() = Reserved::of(self.machine.blueprint());
    }

    fn reserved(&self) -> MutexGuard<'_, Reserved<Holder>> {
        self.reserved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds to the report what the driver answers in the container: nothing where nobody answers.
    fn ask_driver(&self, container: &ContainerStart, workload: &Workload, report: &mut Report) {
        let faults: Vec<Fault> = self.machine.faults().into_iter().map(|spec| spec.fault).collect();
        let is_answered = container.seccomp_profile.as_deref() == Some(ANSWERED_PROFILE);
        if is_answered {
            let answers = |path: &String| self.driver_answers(path, device_at(container, path)?, &faults);
            report.ioctls = report.devices.iter().filter_map(answers).collect();
        }
        if let Some(cores) = &workload.reserve {
            let first = report.devices.first().and_then(|path| device_at(container, path));
            let opens = |device| is_answered && discover(self.machine.blueprint(), device, &faults).is_some();
            report.reserved = Some(match first {
                None => NO_DEVICE.to_owned(),
                Some(device) if !opens(device) => NO_DRIVER.to_owned(),
                Some(device) => {
                    let reserved = self.reserved().reserve(holder(container), device, cores.clone(), &faults);
                    reservation(cores, reserved.err())
                }
            });
        }
    }

    fn driver_answers(&self, path: &str, device: u8, faults: &[Fault]) -> Option<DriverAnswers> {
        let found = discover(self.machine.blueprint(), device, faults)?;
        Some(DriverAnswers {
            path: path.to_owned(),
            host_id: found.host_id.into(),
            architecture: found.architecture,
            links: found.links.into_iter().map(u32::from).collect(),
            address: found.address.to_string(),
        })
    }
}

/// What a reservation without a device ends with: nothing is there to open.
const NO_DEVICE: &str = "ENOENT";
/// What one ends with where nobody answers opens, or the device is gone.
const NO_DRIVER: &str = "ENXIO";

impl ContainerRuntime for WorkloadRuntime {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        let workload = match Workload::from_args(&container.args) {
            Ok(workload) => workload,
            // The real program does the same: usage on its output, exit code 2.
            Err(error) => {
                let ends = Some((Duration::ZERO, 2));
                return ContainerRun { log: error.to_string(), ends, ..ContainerRun::default() };
            }
        };
        let paths = container.devices.iter().map(|device| device.container_path.clone());
        let mut report = Report::of(container.env.clone(), paths);
        self.ask_driver(container, &workload, &mut report);
        let log = serde_json::to_string(&report).unwrap_or_else(|error| error.to_string());
        let ends = workload.ends_after.map(|after| (after, i32::from(workload.exit_code)));
        ContainerRun { log, ends, ..ContainerRun::default() }
    }

    fn ended(&self, end: &ContainerEnd<'_>) {
        self.reserved().release(&holder(end.container));
    }
}

fn holder(container: &ContainerStart) -> Holder {
    (container.pod_uid.clone(), container.container.clone())
}

/// The host's id of the device at this path of the container.
fn device_at(container: &ContainerStart, path: &str) -> Option<u8> {
    let mount = container.devices.iter().find(|device| device.container_path == path)?;
    mount.host_path.strip_prefix("/dev/neuron")?.parse().ok()
}
