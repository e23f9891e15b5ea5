//! The seccomp profile of pods that an agent serves: everything is allowed, opens and the driver's ioctls wait for the agent. Called by
//! `fake-neuron agent`.

use std::fs;
use std::io;
use std::path::Path;

use serde_json::{Value, json};

use crate::ioctl::COMMAND_TYPE;

/// Flags with which no driver sees an open: those opens go through.
const UNSEEN: u64 = (rustix::fs::OFlags::PATH.bits() | rustix::fs::OFlags::DIRECTORY.bits()) as u64;

/// The profile in the form of the OCI runtime specification, for an agent at `socket` (as the container runtime sees that path) on a
/// processor like this one.
///
/// It does not keep what the runtime's default profile forbids: a profile is the only one that its container has.
pub fn profile(socket: &Path) -> Value {
    let architecture = if cfg!(target_arch = "aarch64") { "SCMP_ARCH_AARCH64" } else { "SCMP_ARCH_X86_64" };
    let open = |name: &str, argument: u8| {
        json!({
            "names": [name],
            "action": "SCMP_ACT_NOTIFY",
            "args": [{"index": argument, "value": UNSEEN, "valueTwo": 0, "op": "SCMP_CMP_MASKED_EQ"}],
        })
    };
    json!({
        "defaultAction": "SCMP_ACT_ALLOW",
        "architectures": [architecture],
        "listenerPath": socket,
        "listenerMetadata": "fake-neuron",
        "syscalls": [
            open("openat", 2),
            open("open", 1),
            {"names": ["openat2"], "action": "SCMP_ACT_NOTIFY"},
            {
                "names": ["ioctl"],
                "action": "SCMP_ACT_NOTIFY",
                "args": [{
                    "index": 1,
                    "value": 0xff00,
                    "valueTwo": u64::from(COMMAND_TYPE) << 8,
                    "op": "SCMP_CMP_MASKED_EQ",
                }],
            },
        ],
    })
}

/// Writes the profile to `file`, in kubelet's `seccomp` folder, in one step. Its folder is made if missing.
///
/// # Errors
/// The file system refuses.
pub fn install(file: &Path, socket: &Path) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let work = file.with_extension("new");
    fs::write(&work, format!("{:#}\n", profile(socket)))?;
    fs::rename(work, file)
}
