//! The processes of a node's containers, as the host's `/proc` shows them to who looks there: one for each container, with its pod's
//! cgroup and what it has open. Written as containers start and end.

use std::io;
use std::path::{Path, PathBuf};

use fake_cluster::kubelet::ContainerStart;
use simulator::files::FileSystem;

const PROC: &str = "/proc";
/// The first number that a container's process may have.
const FIRST: u32 = 1000;

/// A container starts, and opens every device that it has.
pub(super) fn start(files: &FileSystem, container: &ContainerStart) {
    let number = running(files).map(|(number, _)| number + 1).max().unwrap_or(FIRST);
    // Nothing else is written there, so that nothing stands in the way.
    let _written = write(files, &folder(number), container);
}

/// It has ended.
pub(super) fn end(files: &FileSystem, container: &ContainerStart) {
    let cgroup = cgroup(container);
    for (number, _) in running(files).filter(|(_, other)| *other == cgroup.as_bytes()) {
        files.remove_all(&folder(number));
    }
}

/// The machine has lost its power.
pub(super) fn vanish(files: &FileSystem) {
    running(files).for_each(|(number, _)| files.remove_all(&folder(number)));
}

fn write(files: &FileSystem, folder: &Path, container: &ContainerStart) -> io::Result<()> {
    files.write(&folder.join("cgroup"), cgroup(container))?;
    files.write(&folder.join("comm"), format!("{:.15}\n", container.container))?;
    files.make_folder(&folder.join("fd"))?;
    for (place, device) in container.devices.iter().enumerate() {
        // After input, output and errors.
        files.make_link(&folder.join(format!("fd/{}", place + 3)), Path::new(&device.host_path))?;
    }
    Ok(())
}

/// The processes of containers by number, with their cgroups.
fn running(files: &FileSystem) -> impl Iterator<Item = (u32, Vec<u8>)> {
    let numbers = files.names(Path::new(PROC)).into_iter().filter_map(|name| name.parse().ok());
    numbers.filter(|number| *number >= FIRST).filter_map(|number| {
        let cgroup = files.read(&folder(number).join("cgroup")).ok()?;
        Some((number, cgroup))
    })
}

fn folder(number: u32) -> PathBuf {
    Path::new(PROC).join(number.to_string())
}

/// As kubelet and containerd name it with systemd, for a pod that asks for no CPU and no memory.
fn cgroup(container: &ContainerStart) -> String {
    let (uid, name) = (container.pod_uid.replace('-', "_"), &container.container);
    format!(
        "0::/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod{uid}.slice/cri-containerd-{name}.scope\n"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use simulator::{Options, run};

    use super::*;

    fn container(uid: &str, name: &str) -> ContainerStart {
        let device = json!({"host_path": "/dev/toy1", "container_path": "/dev/toy0", "permissions": "rw"});
        let start = json!({"pod_namespace": "default", "pod_name": "p", "pod_uid": uid, "container": name,
            "args": [], "env": {}, "devices": [device], "annotations": {}, "ids": {}});
        serde_json::from_value(start).unwrap()
    }

    #[test]
    fn a_container_has_a_process_while_it_runs() {
        let outcome = run(Options::new(1), |simulation| async move {
            let host = simulation.host("n1");
            let (files, proc) = (host.files(), Path::new(PROC));
            files.make_folder(&proc.join("1/fd")).unwrap();
            let (main, side) = (container("a-b", "main"), container("a-b", "side"));
            start(files, &main);
            start(files, &side);
            assert_eq!(files.names(proc), ["1", "1000", "1001"]);
            let cgroup = String::from_utf8(files.read(&proc.join("1000/cgroup")).unwrap()).unwrap();
            assert!(cgroup.contains("/kubepods-besteffort-poda_b.slice/"), "{cgroup}");
            assert_eq!(files.names(&proc.join("1000/fd")), ["3"]);
            end(files, &main);
            assert_eq!(files.names(proc), ["1", "1001"]);
            start(files, &main);
            vanish(files);
            assert_eq!(files.names(proc), ["1"]);
        });
        outcome.result.unwrap();
    }
}
