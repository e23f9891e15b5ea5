//! Assignments on disk: `device-plugins/kubelet_internal_checkpoint`, in kubelet's own form (docs/reference/kubernetes.md §7), so
//! that who reads it on a node reads it here too. Written and read by `shared` and `Kubelet::start`.

use std::collections::BTreeMap;
use std::io;

use jiff::Timestamp;
use k8s_openapi::ByteString;
use kubelet_api::deviceplugin::v1beta1::{ContainerAllocateResponse, DeviceSpec};
use prost::Message;
use serde::{Deserialize, Serialize};

use super::assignments::{AllocateAnswer, Assignment, Assignments};
use super::devices::Devices;
use super::plugins::Plugins;
use crate::kubelet::device_mount::DeviceMount;

/// NUMA node of devices that have none.
const NO_NUMA_NODE: i64 = -1;

/// The file's contents.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Checkpoint {
    data: Data,
    /// Over the data. kubelet takes it over Go's own printing of the struct, so that nobody else can verify it; ours is over the
    /// JSON.
    checksum: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Data {
    /// Null for none, as Go prints a list that was never made.
    pod_device_entries: Option<Vec<Entry>>,
    /// Healthy ids by resource.
    registered_devices: BTreeMap<String, Vec<String>>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    #[serde(rename = "PodUID")]
    pod_uid: String,
    container_name: String,
    resource_name: String,
    /// Ids by NUMA node.
    #[serde(rename = "DeviceIDs")]
    device_ids: BTreeMap<i64, Vec<String>>,
    /// The plugin's answer, as protobuf in base64.
    alloc_resp: ByteString,
}

/// What outlives the kubelet.
pub(crate) fn json(devices: &Devices) -> serde_json::Result<Vec<u8>> {
    let entries: Vec<Entry> = devices.assignments.all().iter().map(Entry::of).collect();
    let registered = devices.plugins.all_healthy();
    let data = Data {
        pod_device_entries: (!entries.is_empty()).then_some(entries),
        registered_devices: registered
            .map(|(resource, ids)| (resource.clone(), ids.iter().cloned().collect()))
            .collect(),
    };
    let checksum = data.checksum()?;
    serde_json::to_vec(&Checkpoint { data, checksum })
}

impl Checkpoint {
    /// What the kubelet before has left.
    ///
    /// # Errors
    /// The file is not what was written.
    pub(crate) fn restore(self, now: Timestamp) -> io::Result<Devices> {
        if self.data.checksum()? != self.checksum {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "checkpoint is corrupted"));
        }
        let entries = self.data.pod_device_entries.into_iter().flatten();
        let assigned: io::Result<Vec<Assignment>> = entries.map(Entry::into_assignment).collect();
        Ok(Devices {
            plugins: Plugins::restored(self.data.registered_devices.into_keys(), now),
            assignments: Assignments::restored(assigned?),
            ..Devices::default()
        })
    }
}

impl Data {
    fn checksum(&self) -> serde_json::Result<u32> {
        let json = serde_json::to_vec(self)?;
        // FNV-1a
        Ok(json
            .iter()
            .fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)))
    }
}

impl Entry {
    fn of(assignment: &Assignment) -> Self {
        let AllocateAnswer { env, devices, annotations } = &assignment.answer;
        let device = |device: &DeviceMount| DeviceSpec {
            host_path: device.host_path.clone(),
            container_path: device.container_path.clone(),
            permissions: device.permissions.clone(),
        };
        let answer = ContainerAllocateResponse {
            envs: env.clone(),
            devices: devices.iter().map(device).collect(),
            annotations: annotations.clone(),
            ..ContainerAllocateResponse::default()
        };
        Self {
            pod_uid: assignment.pod_uid.clone(),
            container_name: assignment.container.clone(),
            resource_name: assignment.resource.clone(),
            device_ids: [(NO_NUMA_NODE, assignment.ids.iter().cloned().collect())].into(),
            alloc_resp: ByteString(answer.encode_to_vec()),
        }
    }

    fn into_assignment(self) -> io::Result<Assignment> {
        let answer = ContainerAllocateResponse::decode(self.alloc_resp.0.as_slice());
        let answer = answer.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(Assignment {
            pod_uid: self.pod_uid,
            container: self.container_name,
            resource: self.resource_name,
            ids: self.device_ids.into_values().flatten().collect(),
            answer: AllocateAnswer::of(&answer),
        })
    }
}
