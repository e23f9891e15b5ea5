//! The cases of Kubernetes 1.34, in the order of its files, each with the steps that carry it out here.

use super::{Case, admission, assignments, failures, pod_status};

const PLUGIN: &str = "device_plugin_test.go";
const FAILURES: &str = "device_plugin_failures_test.go";
const STATUS: &str = "device_plugin_failures_pod_status_test.go";
const MANAGER: &str = "device_manager_test.go";

/// Six devices in a line.
const SIX: &str = "inf2.24xlarge";
/// One device.
const ONE: &str = "inf2.xlarge";

/// All of them.
pub static CASES: &[Case] = &[
    Case {
        file: PLUGIN,
        name: "Can schedule a pod that requires a device",
        hardware: SIX,
        steps: |room| Box::pin(assignments::can_schedule(room)),
    },
    Case {
        file: PLUGIN,
        name: "can make a CDI device accessible in a container",
        hardware: SIX,
        steps: |room| Box::pin(assignments::cdi(room)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments across pod restarts (no kubelet restart, no device plugin restart)",
        hardware: SIX,
        steps: |room| Box::pin(assignments::across_pod_restarts(room)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments across kubelet restarts (no pod restart, no device plugin restart)",
        hardware: SIX,
        steps: |room| Box::pin(assignments::across_kubelet_restarts(room)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments across pod and kubelet restarts (no device plugin restart)",
        hardware: SIX,
        steps: |room| Box::pin(assignments::across_pod_and_kubelet_restarts(room)),
    },
    Case {
        file: PLUGIN,
        name: "will not attempt to admit the succeeded pod after the kubelet restart and device plugin removed",
        hardware: SIX,
        steps: |room| Box::pin(admission::succeeded_pod(room)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments after the device plugin has restarted (no kubelet restart, pod restart)",
        hardware: SIX,
        steps: |room| Box::pin(assignments::after_plugin_restart(room)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments after kubelet restart and device plugin restart (no pod restart)",
        hardware: SIX,
        steps: |room| Box::pin(assignments::after_kubelet_and_plugin_restart(room)),
    },
    Case {
        file: PLUGIN,
        name: "[OrphanedPods] Ensures pods consuming devices deleted while kubelet is down are cleaned up correctly",
        hardware: SIX,
        steps: |room| Box::pin(admission::orphaned_pod(room)),
    },
    Case {
        file: PLUGIN,
        name: "Can schedule a pod with a restartable init container",
        hardware: SIX,
        steps: |room| Box::pin(assignments::restartable_init_container(room)),
    },
    Case {
        file: PLUGIN,
        name: "Does not keep device plugin assignments across node reboots if fails admission (no pod restart, no device plugin re-registration)",
        hardware: SIX,
        steps: |room| Box::pin(admission::node_reboot(room)),
    },
    Case {
        file: FAILURES,
        name: "when GetDevicePluginOptions fails, device plugin will not be used",
        hardware: ONE,
        steps: |room| Box::pin(failures::options_fail(room)),
    },
    Case {
        file: FAILURES,
        name: "will set allocatable to zero when a single device became unhealthy and then back to 1 if it got healthy again",
        hardware: ONE,
        steps: |room| Box::pin(failures::single_device(room)),
    },
    Case {
        file: FAILURES,
        name: "will set allocatable to zero when a single device became unhealthy, but capacity will stay at 1",
        hardware: ONE,
        steps: |room| Box::pin(failures::single_device_in_use(room)),
    },
    Case {
        file: FAILURES,
        name: "will lower allocatable to a number of unhealthy devices and then back if they became healthy again",
        hardware: SIX,
        steps: |room| Box::pin(failures::several_devices(room)),
    },
    Case {
        file: FAILURES,
        name: "when ListAndWatch fails immediately, node allocatable will be set to zero and kubelet will not retry to list resources",
        hardware: SIX,
        steps: |room| Box::pin(failures::list_fails_at_once(room)),
    },
    Case {
        file: FAILURES,
        name: "when ListAndWatch fails after provisioning devices, node allocatable will be set to zero and kubelet will not retry to list resources",
        hardware: SIX,
        steps: |room| Box::pin(failures::list_fails_later(room)),
    },
    Case {
        file: FAILURES,
        name: "when device plugin is stopped after provisioning devices, node allocatable will be set to zero",
        hardware: SIX,
        steps: |room| Box::pin(failures::plugin_stopped(room)),
    },
    Case {
        file: STATUS,
        name: "will report a Healthy and then Unhealthy single device in the pod status",
        hardware: ONE,
        steps: |room| Box::pin(pod_status::of_a_running_pod(room)),
    },
    Case {
        file: STATUS,
        name: "will report a Device Status for the failed pod in the pod status",
        hardware: ONE,
        steps: |room| Box::pin(pod_status::of_a_pod_without_image(room)),
    },
    Case {
        file: MANAGER,
        name: "should deploy pod consuming devices first but fail with admission error after kubelet restart in case device plugin hasn't re-registered",
        hardware: SIX,
        steps: |room| Box::pin(admission::not_registered_again(room)),
    },
];
