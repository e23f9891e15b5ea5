//! Which pod a process belongs to, by its `/proc/PID/cgroup`. Pure; asked by `processes`.

/// The UIDs of the pods in the text: none of what runs beside kubelet, several where a kubelet runs in a pod of another one. A line
/// is `ID:CONTROLLERS:PATH` in version 1 (one for each hierarchy) and `0::PATH` in version 2 (cgroups(7)); the path of a process
/// outside of the reader's own cgroup namespace begins with `/..`.
pub fn pod_uids(cgroup: &str) -> impl Iterator<Item = String> {
    let paths = cgroup.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    // containerd that was told of a systemd path and does not use systemd takes all of `SLICE:cri-containerd:ID` as one name.
    paths.flat_map(|path| path.split(['/', ':'])).filter_map(pod_uid)
}

/// The pod that a cgroup is of, as kubelet names it (`pkg/kubelet/cm/cgroup_manager_linux.go`): `podUID` by driver cgroupfs,
/// `kubepods-besteffort-podUID.slice` by driver systemd, for which `-` parts names, so that the UID has `_` in its place.
fn pod_uid(cgroup: &str) -> Option<String> {
    let uid = match cgroup.strip_suffix(".slice") {
        Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None => cgroup.strip_prefix("pod")?.to_owned(),
    };
    (!uid.is_empty()).then_some(uid)
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const UID: &str = "8d5c2f9e-0b1a-4f8e-9c3d-2a7b6c5d4e3f";
    /// Of a static pod: kubelet's hash of its manifest.
    const STATIC: &str = "0123456789abcdef0123456789abcdef";

    #[rstest]
    #[case::systemd(
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod8d5c2f9e_0b1a_4f8e_9c3d_2a7b6c5d4e3f.slice/\
         cri-containerd-11ff.scope\n",
        &[UID]
    )]
    #[case::systemd_guaranteed(
        "0::/kubepods.slice/kubepods-pod8d5c2f9e_0b1a_4f8e_9c3d_2a7b6c5d4e3f.slice/crio-11ff.scope/container\n",
        &[UID]
    )]
    #[case::in_kind(
        "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/\
         kubelet-kubepods-burstable-pod0123456789abcdef0123456789abcdef.slice/cri-containerd-11ff.scope",
        &[STATIC]
    )]
    #[case::from_another_cgroup_namespace(
        "0::/../../kubepods-besteffort.slice/kubepods-besteffort-pod8d5c2f9e_0b1a_4f8e_9c3d_2a7b6c5d4e3f.slice/x.scope\n",
        &[UID]
    )]
    #[case::cgroupfs("0::/kubepods/besteffort/pod8d5c2f9e-0b1a-4f8e-9c3d-2a7b6c5d4e3f/11ff\n", &[UID])]
    #[case::guaranteed("0::/kubepods/pod8d5c2f9e-0b1a-4f8e-9c3d-2a7b6c5d4e3f/11ff\n", &[UID])]
    #[case::version_1(
        "12:devices:/kubepods/besteffort/pod8d5c2f9e-0b1a-4f8e-9c3d-2a7b6c5d4e3f/11ff\n\
         1:name=systemd:/kubepods/besteffort/pod8d5c2f9e-0b1a-4f8e-9c3d-2a7b6c5d4e3f/11ff\n0::/\n",
        &[UID, UID]
    )]
    #[case::version_1_systemd(
        "4:cpu,cpuacct:/kubepods.slice/kubepods-pod8d5c2f9e_0b1a_4f8e_9c3d_2a7b6c5d4e3f.slice/cri-containerd-11ff.scope\n",
        &[UID]
    )]
    #[case::mixed_drivers(
        "12:pids:/system.slice/containerd.service/\
         kubepods-besteffort-pod8d5c2f9e_0b1a_4f8e_9c3d_2a7b6c5d4e3f.slice:cri-containerd:11ff\n",
        &[UID]
    )]
    #[case::nested(
        "0::/kubepods/podouter/11ff/kubelet.slice/kubelet-kubepods-podinner.slice/22ee",
        &["outer", "inner"]
    )]
    #[case::on_the_host("0::/system.slice/containerd.service\n", &[])]
    #[case::kernel_thread("0::/\n", &[])]
    #[case::pod_of_nobody("0::/kubepods/besteffort/pod/11ff\n0::/kubepods.slice/kubepods-pod.slice\n", &[])]
    #[case::none("", &[])]
    #[case::not_of_the_form("kubepods/podx\n", &[])]
    fn the_pod_stands_in_the_path(#[case] text: &str, #[case] uids: &[&str]) {
        assert_eq!(pod_uids(text).collect::<Vec<_>>(), uids);
    }
}
