//! Runs `neuron-workload` containers on the embedded cluster: what the real one would print, as a value.

use fake_cluster::kubelet::{ContainerRun, ContainerRuntime, ContainerStart};

use neuron_workload::{Report, Workload};

/// Every container is a `neuron-workload`, whatever its image says.
pub(super) struct WorkloadRuntime;

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
        let report = Report::of(container.env.clone(), paths);
        let log = serde_json::to_string(&report).unwrap_or_else(|error| error.to_string());
        let ends = workload.ends_after.map(|after| (after, i32::from(workload.exit_code)));
        ContainerRun { log, ends, ..ContainerRun::default() }
    }
}
