//! The cases of Kubernetes 1.34 and 1.37, in the order of its files, each with the steps that carry it out here; then those of
//! what kubelet does besides.

mod admission;
mod assignments;
mod failures;
mod kubelet_ways;
mod pod_status;
mod several_plugins;

use super::Case;
use super::plugin::Devices;

const PLUGIN: &str = "device_plugin_test.go";
const FAILURES: &str = "device_plugin_failures_test.go";
const STATUS: &str = "device_plugin_failures_pod_status_test.go";
const MANAGER: &str = "device_manager_test.go";
const MULTIPLE: &str = "device_plugin_multiple_test.go";
/// Those that Kubernetes' own tests leave out.
const KUBELET: &str = "what kubelet really does";

/// All of them.
pub static CASES: &[Case] = &[
    Case {
        file: PLUGIN,
        name: "Can schedule a pod that requires a device",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(assignments::can_schedule(context)),
    },
    Case {
        file: PLUGIN,
        name: "can make a CDI device accessible in a container",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(assignments::cdi(context)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments across pod restarts (no kubelet restart, no device plugin restart)",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(assignments::across_pod_restarts(context)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments across kubelet restarts (no pod restart, no device plugin restart)",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(assignments::across_kubelet_restarts(context)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments across pod and kubelet restarts (no device plugin restart)",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(assignments::across_pod_and_kubelet_restarts(context)),
    },
    Case {
        file: PLUGIN,
        name: "will not attempt to admit the succeeded pod after the kubelet restart and device plugin removed",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(admission::succeeded_pod(context)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments after the device plugin has restarted (no kubelet restart, pod restart)",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(assignments::after_plugin_restart(context)),
    },
    Case {
        file: PLUGIN,
        name: "Keeps device plugin assignments after kubelet restart and device plugin restart (no pod restart)",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(assignments::after_kubelet_and_plugin_restart(context)),
    },
    Case {
        file: PLUGIN,
        name: "[OrphanedPods] Ensures pods consuming devices deleted while kubelet is down are cleaned up correctly",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(admission::orphaned_pod(context)),
    },
    Case {
        file: PLUGIN,
        name: "Can schedule a pod with a restartable init container",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(assignments::restartable_init_container(context)),
    },
    Case {
        file: PLUGIN,
        name: "Does not keep device plugin assignments across node reboots if fails admission (no pod restart, no device plugin re-registration)",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(admission::node_reboot(context)),
    },
    Case {
        file: FAILURES,
        name: "when GetDevicePluginOptions fails, device plugin will not be used",
        devices: Devices::One,
        sets_health: false,
        steps: |context| Box::pin(failures::options_fail(context)),
    },
    Case {
        file: FAILURES,
        name: "will set allocatable to zero when a single device became unhealthy and then back to 1 if it got healthy again",
        devices: Devices::One,
        sets_health: true,
        steps: |context| Box::pin(failures::single_device(context)),
    },
    Case {
        file: FAILURES,
        name: "will set allocatable to zero when a single device became unhealthy, but capacity will stay at 1",
        devices: Devices::One,
        sets_health: true,
        steps: |context| Box::pin(failures::single_device_in_use(context)),
    },
    Case {
        file: FAILURES,
        name: "will lower allocatable to a number of unhealthy devices and then back if they became healthy again",
        devices: Devices::AtLeast(4),
        sets_health: true,
        steps: |context| Box::pin(failures::several_devices(context)),
    },
    Case {
        file: FAILURES,
        name: "when ListAndWatch fails immediately, node allocatable will be set to zero and kubelet will not retry to list resources",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(failures::list_fails_at_once(context)),
    },
    Case {
        file: FAILURES,
        name: "when ListAndWatch fails after provisioning devices, node allocatable will be set to zero and kubelet will not retry to list resources",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(failures::list_fails_later(context)),
    },
    Case {
        file: FAILURES,
        name: "when device plugin is stopped after provisioning devices, node allocatable will be set to zero",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(failures::plugin_stopped(context)),
    },
    Case {
        file: STATUS,
        name: "will report a Healthy and then Unhealthy single device in the pod status",
        devices: Devices::One,
        sets_health: true,
        steps: |context| Box::pin(pod_status::of_a_running_pod(context)),
    },
    Case {
        file: STATUS,
        name: "will report a Device Status for the failed pod in the pod status",
        devices: Devices::One,
        sets_health: true,
        steps: |context| Box::pin(pod_status::of_a_pod_without_image(context)),
    },
    Case {
        file: MANAGER,
        name: "should deploy pod consuming devices first but fail with admission error after kubelet restart in case device plugin hasn't re-registered",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(admission::not_registered_again(context)),
    },
    Case {
        file: MULTIPLE,
        name: "Device Plugin Multiple: Basic rollout of device plugins with zero downtime",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(several_plugins::rollout(context)),
    },
    Case {
        file: MULTIPLE,
        name: "Device Plugin Multiple: DP2 takes long time to start working",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(several_plugins::slow_start(context)),
    },
    Case {
        file: MULTIPLE,
        name: "Device Plugin Multiple: DP2 changed its mind",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(several_plugins::changed_mind(context)),
    },
    Case {
        file: KUBELET,
        name: "Is dialled back while its registration is open",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::dialled_back(context)),
    },
    Case {
        file: KUBELET,
        name: "Registers again when its stream is ended",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::lost_stream(context)),
    },
    Case {
        file: KUBELET,
        name: "Registers again when kubelet has removed the old sockets and is not there yet",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::removed_sockets(context)),
    },
    Case {
        file: KUBELET,
        name: "Registers again when kubelet.sock has the same inode as before",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::same_inode(context)),
    },
    Case {
        file: KUBELET,
        name: "Keeps the ids that a restarted kubelet restores from its checkpoint",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::checkpoint(context)),
    },
    Case {
        file: KUBELET,
        name: "Allocates what it is asked for, although it preferred other devices",
        devices: Devices::AtLeast(2),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::preferred_ignored(context)),
    },
    Case {
        file: KUBELET,
        name: "Answers Allocate with what a container runtime can carry out",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::answers(context)),
    },
    Case {
        file: KUBELET,
        name: "No id vanishes from its list",
        devices: Devices::AtLeast(1),
        sets_health: false,
        steps: |context| Box::pin(kubelet_ways::no_id_vanishes(context)),
    },
];
