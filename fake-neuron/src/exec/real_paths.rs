//! Makes the machine and shows it at the paths where real hardware is: `/dev`, `/sys`, `/proc`, `/opt`. Called by [`crate::exec`] in a
//! mount namespace of this process' own.
//!
//! The machine stands on a tmpfs that is mounted in that namespace only, so it goes with its last process, however that ends.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use neuron_core::catalog::Catalog;
use rustix::fs::Mode;
use rustix::mount::{MountFlags, UnmountFlags, mount, mount_bind, unmount};
use rustix::process::umask;

use super::union::{HostFolder, fill, is_device, stand};
use super::{ExecError, Hardware, proc_files};
use crate::fault::KERNEL_LOG;
use crate::host::ROOT_LINK;
use crate::machine::disk;
use crate::{Builder, Machine, MachineError};

/// Where the machine's root stands for the program unless another folder is given: in `/opt`, which is made anew in any case.
pub const DEFAULT_ROOT: &str = "/opt/fake-neuron";

/// The folder of AWS' tools.
pub const TOOLS: &str = "/opt/aws/neuron/bin";

/// Each of the tools is this program under another name.
const TOOL_NAMES: [&str; 2] = ["neuron-ls", "neuron-monitor"];

/// Folders of the host that become the machine's, with the host's other files in them.
const SHOWN_IN: [&str; 5] = ["/dev", "/sys/class", "/sys/module", "/sys/devices/virtual", "/opt/aws"];

/// What replaces a file of `/proc`; its fellow below the root is what the machine changes.
const PROC_FILES: [&str; 2] = ["proc/devices", "proc/modules"];

/// The module's line where the machine has none of its own: size and users of an idle driver (unconfirmed).
const MODULE: &str = "neuron 585728 0 - Live 0x0000000000000000 (OE)";

const NEEDS_SYSFS: &str = "mount sysfs at /sys";
const NEEDS_OPT: &str = "make it, empty";

/// The root as it will be used, checked as long as the host's own files are to be seen.
///
/// # Errors
/// It is not there, no folder, not empty, the host's own root or a folder in which the machine is shown.
pub(super) fn check_root(root: Option<&Path>) -> Result<PathBuf, ExecError> {
    let Some(asked) = root else { return Ok(PathBuf::from(DEFAULT_ROOT)) };
    if !disk::is_there(asked) {
        return Err(ExecError::NoRoot { root: asked.to_owned() });
    }
    let root = asked.canonicalize().map_err(MachineError::io("open", asked))?;
    if root == Path::new("/") {
        return Err(MachineError::HostRoot { root: asked.to_owned() }.into());
    }
    if !root.is_dir() {
        return Err(MachineError::RootNotAFolder { root: asked.to_owned() }.into());
    }
    if root.starts_with("/sys")
        || root.starts_with("/proc")
        || SHOWN_IN.iter().any(|shown| Path::new(shown).starts_with(&root))
    {
        return Err(ExecError::RootInTheWay { root });
    }
    if !disk::is_empty(&root)? {
        return Err(MachineError::NotEmpty { root }.into());
    }
    Ok(root)
}

/// Makes the machine on a tmpfs at `root` (as [`check_root`] gave it) and shows it at the real paths.
///
/// # Errors
/// Those of [`Machine::up`] and of [`crate::record::Fixture::up`], a folder of the host's that is missing, the kernel's refusal.
pub(super) fn show(hardware: &Hardware, root: &Path, catalog: &Catalog) -> Result<Machine, ExecError> {
    // Everybody may read the machine, as everybody may read a real one, whatever this user's mask is.
    let mask = umask(Mode::WGRP | Mode::WOTH);
    let shown = show_readable(hardware, root, catalog);
    umask(mask);
    shown
}

fn show_readable(hardware: &Hardware, root: &Path, catalog: &Catalog) -> Result<Machine, ExecError> {
    let program = std::env::current_exe().map_err(ExecError::refused("find this program's file"))?;
    make_opt(root)?;
    mount_tmpfs(root)?;
    let machine = match hardware {
        Hardware::Type(spec) => Builder::of(spec.clone()).catalog(catalog).counters(true).up(root)?,
        Hardware::Fixture(fixture) => fixture.up(root)?,
    };
    let root = machine.root();
    for name in PROC_FILES {
        prepare_proc_file(root, name)?;
    }
    let kernel_log = root.join(KERNEL_LOG);
    File::create(&kernel_log).map_err(ExecError::at("make", &kernel_log))?;
    let tools = root.join(TOOLS.trim_start_matches('/'));
    fs::create_dir_all(&tools).map_err(ExecError::at("make", &tools))?;
    for name in TOOL_NAMES {
        place_tool(&program, &tools.join(name))?;
    }
    let link = root.join(ROOT_LINK.trim_start_matches('/'));
    symlink(root, &link).map_err(ExecError::at("make", &link))?;
    for folder in SHOWN_IN {
        let real = Path::new(folder);
        let host = HostFolder::at(real, NEEDS_SYSFS)?;
        let machine = root.join(folder.trim_start_matches('/'));
        fs::create_dir_all(&machine).map_err(ExecError::at("make", &machine))?;
        stand(&machine, real, &host, &is_hidden)?;
    }
    for name in TOOL_NAMES {
        // The mount of their folder does not bring along what is mounted in it.
        let real = Path::new(TOOLS).join(name);
        mount_bind(tools.join(name), &real).map_err(ExecError::at("mount", &real))?;
    }
    refresh_proc_files(root)?;
    Ok(machine)
}

/// A new `/opt` with everything of the host's in it but what the machine brings: whoever is not root may not make a folder in the
/// host's, and root must not.
fn make_opt(root: &Path) -> Result<(), ExecError> {
    let opt = Path::new("/opt");
    let host = HostFolder::at(opt, NEEDS_OPT)?;
    let host_aws = host.path().join("aws");
    mount_tmpfs(opt)?;
    let (aws, default_root) = (opt.join("aws"), Path::new(DEFAULT_ROOT));
    fs::create_dir(&aws).map_err(ExecError::at("make", &aws))?;
    if root == default_root {
        fs::create_dir(root).map_err(ExecError::at("make", root))?;
    }
    let hidden = |path: &Path| path == aws || path == default_root;
    fill(opt, &host.path(), &hidden)?;
    if host_aws.is_dir() { fill(&aws, &host_aws, &is_hidden) } else { Ok(()) }
}

fn mount_tmpfs(at: &Path) -> Result<(), ExecError> {
    mount("fake-neuron", at, "tmpfs", MountFlags::NOSUID, c"mode=0755")
        .map_err(ExecError::at("mount a tmpfs at", at))
}

/// What belongs to real Neuron hardware of the host is not to be seen beside the fake.
fn is_hidden(path: &Path) -> bool {
    const HIDDEN: [&str; 4] = [
        "/sys/class/neuron_device",
        "/sys/devices/virtual/neuron_device",
        "/sys/module/neuron",
        "/opt/aws/neuron/logical_nc_config",
    ];
    let is_device =
        path.parent() == Some(Path::new("/dev")) && is_device(path.file_name().unwrap_or(OsStr::new("")));
    is_device || HIDDEN.iter().any(|hidden| path == Path::new(hidden))
}

/// The program under the tool's name: a mount where that is possible, for a copy takes memory; else a copy.
fn place_tool(program: &Path, tool: &Path) -> Result<(), ExecError> {
    File::create(tool).map_err(ExecError::at("make", tool))?;
    if mount_bind(program, tool).is_err() {
        // The file was replaced since the program started, or is hidden by now.
        fs::copy("/proc/self/exe", tool).map_err(ExecError::at("make", tool))?;
        fs::set_permissions(tool, fs::Permissions::from_mode(0o755)).map_err(ExecError::at("make", tool))?;
    }
    Ok(())
}

/// Writes below the root what the file of `/proc` shall say. Nothing where the kernel has no such file: none can be made there.
fn prepare_proc_file(root: &Path, name: &str) -> Result<(), ExecError> {
    let real = Path::new("/").join(name);
    let Ok(host) = fs::read_to_string(&real) else { return Ok(()) };
    let text = if name == "proc/devices" {
        proc_files::devices(&host)
    } else {
        let own = fs::read_to_string(root.join(name)).unwrap_or_default();
        let line = own.lines().find(|line| line.starts_with("neuron "));
        proc_files::modules(&host, line.unwrap_or(MODULE))
    };
    Ok(disk::replace(root, name, &text, 0o444)?)
}

/// Mounts at `/proc` the files below the root that are not the ones mounted there: a file that is replaced, as a fault does, is
/// another one to a mount. Called again and again while the program runs.
///
/// # Errors
/// The kernel refuses.
pub(super) fn refresh_proc_files(root: &Path) -> Result<(), ExecError> {
    for name in PROC_FILES {
        let (ours, real) = (root.join(name), Path::new("/").join(name));
        // Missing for a moment while it is replaced, or for good on this kernel.
        let (Ok(now), Ok(shown)) = (fs::metadata(&ours), fs::metadata(&real)) else { continue };
        if (now.dev(), now.ino()) == (shown.dev(), shown.ino()) {
            continue;
        }
        if now.dev() == shown.dev() {
            // Nothing may be mounted on a file that was removed. For a moment the host's is seen.
            unmount(&real, UnmountFlags::DETACH).map_err(ExecError::at("unmount", &real))?;
        }
        mount_bind(&ours, &real).map_err(ExecError::at("mount", &real))?;
    }
    Ok(())
}

/// Whether the machine's nodes are character devices; where those may not be made they are plain files.
pub(super) fn has_nodes(machine: &Machine) -> bool {
    let first = machine.root().join("dev/neuron0").symlink_metadata();
    first.is_ok_and(|node| node.file_type().is_char_device())
}
