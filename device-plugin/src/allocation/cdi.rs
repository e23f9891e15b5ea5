//! Devices by the names of the Container Device Interface: the answer to Allocate has the names, and a file that is written before the
//! plugin registers tells the container runtime what they are. Called by `allocate` and `run`.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kubelet_api::deviceplugin::v1beta1::{CdiDevice, ContainerAllocateResponse};
use neuron_core::topology::Topology;
use runtime::{System, reached};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::hardware::device_files::device_node;

/// Vendor and class of the devices.
const KIND: &str = "aws.amazon.com/neuron";
/// The file that names them.
const FILE: &str = "aws.amazon.com-neuron.json";
/// The oldest version of the interface that knows `hostPath`; containerd 1.7 reads it.
const VERSION: &str = "0.5.0";

/// The answer to Allocate with names in place of paths.
pub fn by_name(mut response: ContainerAllocateResponse) -> ContainerAllocateResponse {
    let file_name =
        |path: &str| Path::new(path).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let devices = std::mem::take(&mut response.devices).into_iter().map(|spec| {
        let device = name_of(&file_name(&spec.host_path), &file_name(&spec.container_path));
        CdiDevice { name: format!("{KIND}={device}") }
    });
    response.cdi_devices = devices.collect();
    response
}

/// The file cannot be written, without which no container would get its devices.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} cannot be written: {source}; mount the host's folder at --cdi-dir, writable (deploy/cdi-patch.yml)", path.display()
)]
pub struct CdiError {
    path: PathBuf,
    source: io::Error,
}

/// The node's container runtime passes over names of devices: its containers would run without any.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the container runtime {runtime} of this node does not know the Container Device Interface, so containers would run without their \
     devices: use containerd 1.7 with enable_cdi, containerd 2.0 or CRI-O, or --device-injection=device-specs"
)]
pub struct RuntimeTooOld {
    runtime: String,
}

/// Whether the runtime that the Node names, such as `containerd://1.6.20`, is known to pass over names of devices. Whether containerd 1.7
/// has them enabled nobody tells.
///
/// # Errors
/// It is.
pub fn check_runtime(node: &Node) -> Result<(), RuntimeTooOld> {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    let runtime = info.map(|info| info.container_runtime_version.as_str()).unwrap_or_default();
    let version = runtime.strip_prefix("containerd://").map(|version| version.trim_start_matches('v'));
    let mut numbers = version.into_iter().flat_map(|version| version.split('.')).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) if (major, minor) < (1, 7) => {
            Err(RuntimeTooOld { runtime: runtime.to_owned() })
        }
        _ => Ok(()),
    }
}

/// Writes the file that names every device of the machine, in place of what an earlier plugin wrote.
///
/// # Errors
/// The folder cannot be made, or the file not written.
pub async fn write_cdi(
    system: &System,
    folder: &Path,
    root: &Path,
    topology: &Topology,
) -> Result<(), CdiError> {
    let path = folder.join(FILE);
    let written = async {
        system.create_folder(folder).await?;
        system.replace(&path, described(root, topology).to_string().into_bytes()).await
    };
    written.await.map_err(|source| CdiError { path, source })
}

/// Writes the file again where somebody has removed it, at a look every `poll`. Never returns.
pub async fn keep_cdi(
    system: &System,
    (folder, root): (&Path, &Path),
    topology: &Topology,
    poll: Duration,
    tell: impl Fn(Result<(), CdiError>),
) {
    let path = folder.join(FILE);
    loop {
        sleep(poll).await;
        match system.status(&path).await {
            Ok(_) => tell(Ok(())),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                reached("plugin: device names written again");
                tell(write_cdi(system, folder, root, topology).await);
            }
            // What cannot be looked at may be there.
            Err(_) => {}
        }
    }
}

/// Every device, under each number that it can have inside a container: as many as there are lower ones may come before it. Those of
/// either numbering, as containers that were started with the other one may start again.
fn described(root: &Path, topology: &Topology) -> Value {
    let inside = |device: u8| (0..=device).map(move |number| (device, number));
    let each = topology.all_devices().iter().flat_map(inside);
    let devices: Vec<Value> = each
        .map(|(device, number)| {
            let name = name_of(&format!("neuron{device}"), &format!("neuron{number}"));
            let node = json!({
                "path": format!("/dev/neuron{number}"),
                "hostPath": device_node(root, device),
                "permissions": "rw",
            });
            json!({"name": name, "containerEdits": {"deviceNodes": [node]}})
        })
        .collect();
    json!({"cdiVersion": VERSION, "kind": KIND, "devices": devices})
}

/// What a device is called that has another name inside.
fn name_of(device: &str, inside: &str) -> String {
    if device == inside { device.to_owned() } else { format!("{device}-as-{inside}") }
}

#[cfg(test)]
mod tests {
    use kubelet_api::deviceplugin::v1beta1::DeviceSpec;
    use neuron_core::catalog::Catalog;
    use neuron_core::topology::Policy;
    use rstest::rstest;

    use super::*;

    fn spec(device: u8, inside: u8) -> DeviceSpec {
        DeviceSpec {
            host_path: format!("/r/dev/neuron{device}"),
            container_path: format!("/dev/neuron{inside}"),
            permissions: "rw".to_owned(),
        }
    }

    /// The nodes that a container runtime makes of a name, by the file.
    fn nodes(file: &Value, name: &str) -> Value {
        let (kind, device) = name.split_once('=').unwrap();
        assert_eq!(file["kind"], kind);
        let devices = file["devices"].as_array().unwrap();
        let found: Vec<&Value> = devices.iter().filter(|one| one["name"] == device).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]["containerEdits"]["deviceNodes"].clone()
    }

    #[rstest]
    #[case::host(&[(1, 1), (5, 5)])]
    #[case::renumbered(&[(1, 0), (5, 1)])]
    fn names_lead_to_the_nodes_that_the_answer_would_have(#[case] given: &[(u8, u8)]) {
        let model = Catalog::embedded().find("inf2.24xlarge").unwrap();
        let topology = Topology::of(model, 1, Policy::Documented).unwrap();
        let file = described(Path::new("/r"), &topology);
        let devices = given.iter().map(|(device, inside)| spec(*device, *inside)).collect();
        let response = ContainerAllocateResponse { devices, ..Default::default() };
        let named = by_name(response);
        assert_eq!((named.devices.len(), named.cdi_devices.len()), (0, given.len()));
        for (one, (device, inside)) in named.cdi_devices.iter().zip(given) {
            let node = json!({
                "path": format!("/dev/neuron{inside}"), "hostPath": format!("/r/dev/neuron{device}"), "permissions": "rw",
            });
            assert_eq!(nodes(&file, &one.name), json!([node]));
        }
    }
}
