//! Runs `neuron-workload` containers on the embedded cluster: what the real one would print, as a value.

use fake_cluster::kubelet::{ContainerRun, ContainerRuntime, ContainerStart};
use fake_neuron::Blueprint;
use fake_neuron::ioctl::discover;

use neuron_workload::{DriverAnswers, Report, Workload};

/// The profile with which `fake-neuron agent` answers a container's ioctls (`deploy/fake-neuron-agent.yml`).
const ANSWERED_PROFILE: &str = "fake-neuron.json";

/// Every container is a `neuron-workload`, whatever its image says.
pub(super) struct WorkloadRuntime {
    machine: Blueprint,
}

impl WorkloadRuntime {
    /// The runtime of the node with this machine.
    pub(super) fn new(machine: Blueprint) -> Self {
        Self { machine }
    }

    /// What the driver answers in the container; nothing where nobody answers.
    fn ioctls(&self, container: &ContainerStart, report: &Report) -> Vec<DriverAnswers> {
        if container.seccomp_profile.as_deref() != Some(ANSWERED_PROFILE) {
            return Vec::new();
        }
        let answers = |path: &String| {
            let mount = container.devices.iter().find(|device| device.container_path == *path)?;
            let device = mount.host_path.strip_prefix("/dev/neuron")?.parse().ok()?;
            let found = discover(&self.machine, device)?;
            Some(DriverAnswers {
                path: path.clone(),
                host_id: found.host_id.into(),
                architecture: found.architecture,
                links: found.links.into_iter().map(u32::from).collect(),
                address: found.address.to_string(),
            })
        };
        report.devices.iter().filter_map(answers).collect()
    }
}

impl ContainerRuntime for WorkloadRuntime {
    fn start(&self, container: &ContainerStart) -> ContainerRun {
        let workload = match Workload::from_args(&container.args) {
            Ok(workload) => workload,
            // The real program does the same: usage on its output, exit code 2.
            Err(error) => {
                let ends = Some((std::time::Duration::ZERO, 2));
                return ContainerRun { log: error.to_string(), ends, ..ContainerRun::default() };
            }
        };
        let paths = container.devices.iter().map(|device| device.container_path.clone());
        let mut report = Report::of(container.env.clone(), paths);
        report.ioctls = self.ioctls(container, &report);
        let log = serde_json::to_string(&report).unwrap_or_else(|error| error.to_string());
        let ends = workload.ends_after.map(|after| (after, i32::from(workload.exit_code)));
        ContainerRun { log, ends, ..ContainerRun::default() }
    }
}
