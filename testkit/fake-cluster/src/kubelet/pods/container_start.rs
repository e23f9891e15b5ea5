//! What a container is started with: the pod's spec, and what the device plugins answered at admission. Called by `worker`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};
use kube::ResourceExt;

use crate::kubelet::container_runtime::ContainerStart;
use crate::kubelet::device_manager::assignments::Assignments;
use crate::kubelet::device_mount::DeviceMount;

/// Merges the plugins' answers (`deviceRunContainerOptions`: the first resource that sets a key wins). The spec's variables
/// are last in kubelet's list (`GenerateRunContainerOptions` appends `makeEnvironmentVariables` to the plugins' variables),
/// and containerd takes the last.
pub(super) fn container_start(pod: &Pod, container: &Container, assignments: &Assignments) -> ContainerStart {
    let pod_uid = pod.uid().unwrap_or_default();
    let mut env = BTreeMap::new();
    let mut devices: Vec<DeviceMount> = Vec::new();
    let mut annotations = BTreeMap::new();
    let mut ids = BTreeMap::new();
    for assigned in assignments.of_container(&pod_uid, &container.name) {
        ids.insert(assigned.resource.clone(), assigned.ids.clone());
        for (name, value) in &assigned.answer.env {
            env.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for (name, value) in &assigned.answer.annotations {
            annotations.entry(name.clone()).or_insert_with(|| value.clone());
        }
        for device in &assigned.answer.devices {
            if devices.iter().all(|other| other.container_path != device.container_path) {
                devices.push(device.clone());
            }
        }
    }
    let spec_env = container.env.iter().flatten();
    env.extend(spec_env.map(|var| (var.name.clone(), var.value.clone().unwrap_or_default())));
    ContainerStart {
        pod_namespace: pod.namespace().unwrap_or_default(),
        pod_name: pod.name_any(),
        pod_uid,
        container: container.name.clone(),
        args: container.args.clone().unwrap_or_default(),
        env,
        devices,
        annotations,
        ids,
        seccomp_profile: seccomp_profile(pod, container),
    }
}

/// The container's own setting counts before its pod's.
fn seccomp_profile(pod: &Pod, container: &Container) -> Option<String> {
    let own = container.security_context.as_ref().and_then(|context| context.seccomp_profile.as_ref());
    let pods = || pod.spec.as_ref()?.security_context.as_ref()?.seccomp_profile.as_ref();
    own.or_else(pods)?.localhost_profile.clone()
}
