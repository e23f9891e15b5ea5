//! What can go wrong with a machine. Every text names the object and the way out. Used by all of this crate.

use std::io;
use std::path::{Path, PathBuf};

/// Why a machine could not be made, found or changed.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// No such instance type.
    #[error("instance type {name} is not known:{} `fake-neuron list --aliases` shows every name and takes types of your own with --catalog", did_you_mean(.near))]
    UnknownType {
        /// The name as asked for.
        name: String,
        /// Known names that look like it, best first, at most three.
        near: Vec<String>,
    },
    /// A type known by name only, whose devices are not documented.
    #[error(
        "instance type {name} is known by name only: how many devices it has is not documented; choose a type from `fake-neuron list`"
    )]
    UnknownDevices {
        /// The name as asked for.
        name: String,
    },
    /// An LNC that the type cannot run at.
    #[error("instance type {name} cannot run at LNC {lnc}: {allowed}")]
    Lnc {
        /// The instance type's name, such as `trn1.32xlarge`.
        name: String,
        /// The LNC asked for.
        lnc: u8,
        /// What is allowed, as the end of the sentence.
        allowed: &'static str,
    },
    /// A driver that is none of the known lines.
    #[error(
        "driver {driver} is not known: give one of the lines {known}, or the version that one of them shows, such as {version}"
    )]
    UnknownDriver {
        /// The line or version asked for.
        driver: String,
        /// Every line.
        known: String,
        /// The newest line's version whose tree is known, such as `2.30.2.0`.
        version: String,
    },
    /// A driver that does not bind the type's devices.
    #[error("driver {driver} does not bind the devices of instance type {name}: give one of {known}")]
    Driver {
        /// The instance type's name, such as `trn1.32xlarge`.
        name: String,
        /// The line asked for.
        driver: String,
        /// The lines that bind them.
        known: String,
    },
    /// An instance id that DMI cannot hold.
    #[error(
        "instance id {id:?} is not valid: give 1 to 64 visible ASCII characters, such as i-0123456789abcdef0"
    )]
    InstanceId {
        /// The id asked for.
        id: String,
    },
    /// The root folder is the host's own.
    #[error("root {} is this host's own root: give a folder of its own, such as /tmp/node1", .root.display())]
    HostRoot {
        /// The root as asked for.
        root: PathBuf,
    },
    /// The root is a file.
    #[error("root {} is not a folder: give a folder of its own, such as /tmp/node1", .root.display())]
    RootNotAFolder {
        /// The root as asked for.
        root: PathBuf,
    },
    /// Nothing can be made in the root.
    #[error("root {} cannot be written ({reason}): give a folder that you may write, such as /tmp/node1", .root.display())]
    RootNotWritable {
        /// The machine's root folder.
        root: PathBuf,
        /// The file system's words.
        reason: io::Error,
    },
    /// A root that does not exist yet, with `..` in its path.
    #[error("root {} does not exist and is written with `..`: write where it shall be without it", .root.display())]
    ParentInPath {
        /// The root as asked for.
        root: PathBuf,
    },
    /// Foreign files are in the root folder.
    #[error(
        "root {} is not empty and holds no fake machine: give an empty folder, or one that `fake-neuron up` made", .root.display()
    )]
    NotEmpty {
        /// The machine's root folder, as the caller gave it.
        root: PathBuf,
    },
    /// Another call makes or removes the machine under the root.
    #[error("root {} is being made or removed by another fake-neuron: wait for its end, or give another folder", .root.display())]
    AtWork {
        /// The machine's root folder.
        root: PathBuf,
    },
    /// No machine is under the root.
    #[error("root {} holds no fake machine: make one with `fake-neuron up`", .root.display())]
    NoMachine {
        /// The machine's root folder, as the caller gave it.
        root: PathBuf,
    },
    /// The marker is malformed.
    #[error("{} does not describe a fake machine: {reason}; empty the folder by hand", .path.display())]
    Marker {
        /// Path of the marker file.
        path: PathBuf,
        /// What was wrong in it.
        reason: serde_json::Error,
    },
    /// A foreign file is where one of the machine's belongs.
    #[error("{} was not made by fake-neuron and is in the way: move it out of the root folder", .path.display())]
    InTheWay {
        /// Path of the foreign file.
        path: PathBuf,
    },
    /// A folder of the machine was replaced by something that may lead out of the root.
    #[error("{} is not a folder: fake-neuron does not follow it out of its root; remove it", .path.display())]
    NotAFolder {
        /// The path where a folder should be.
        path: PathBuf,
    },
    /// No device with this id.
    #[error("{instance_type} has no device {device}: its devices are 0 to {last}")]
    NoDevice {
        /// The machine's instance type, such as `trn1.32xlarge`.
        instance_type: String,
        /// The id asked for, 0 to 255.
        device: u8,
        /// The highest device id.
        last: u8,
    },
    /// The device is lost, so its health has no files.
    #[error("device {device} of {instance_type} is lost: restore it before its health can change")]
    Lost {
        /// The machine's instance type, such as `trn1.32xlarge`.
        instance_type: String,
        /// Device id, 0 to 63.
        device: u8,
    },
    /// Unhealthy, but nothing is named that is broken.
    #[error(
        "device {device} of {instance_type} cannot be unhealthy without a component: name one of {known}"
    )]
    NoComponent {
        /// The machine's instance type, such as `trn1.32xlarge`.
        instance_type: String,
        /// Device id, 0 to 63.
        device: u8,
        /// The names that this generation can show.
        known: String,
    },
    /// A component that this generation's files cannot show.
    #[error("device {device} of {instance_type} cannot show component {component:?}: name one of {known}")]
    Component {
        /// The machine's instance type, such as `trn1.32xlarge`.
        instance_type: String,
        /// Device id, 0 to 63.
        device: u8,
        /// The component as the caller named it.
        component: String,
        /// The names that this generation can show.
        known: String,
    },
    /// The file system refused.
    #[error("cannot {action} {}: {reason}", .path.display())]
    Io {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The file system's answer.
        reason: io::Error,
    },
}

impl MachineError {
    /// Makes the error of a call to the file system, for `map_err`.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> MachineError {
        let path = path.to_owned();
        move |reason| MachineError::Io { action, path, reason }
    }
}

fn did_you_mean(near: &[String]) -> String {
    match near {
        [] => String::new(),
        [only] => format!(" did you mean {only}?"),
        several => format!(" did you mean one of {}?", several.join(", ")),
    }
}
