//! Puts this process into namespaces of its own, so that what it mounts is seen by nobody else and goes when the last process in
//! them ends. Called by [`crate::exec`] first.

use std::fs;
use std::io;

use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use super::ExecError;

const MOUNTS: &str = "making a mount namespace";
const USERS: &str = "making a user namespace";
const NUMBERS: &str = "keeping this user's number in the user namespace";
const PRIVATE: &str = "taking the mounts apart from the host's";

/// Enters a mount namespace, with `network` a network namespace, and where this process may not make those, a user namespace in
/// which it may; users and groups keep their numbers in it.
///
/// # Errors
/// The kernel refuses; the error names the setting. A process of several threads is refused where it needs the user namespace.
pub(super) fn enter(network: bool) -> Result<(), ExecError> {
    let network = if network { UnshareFlags::NEWNET } else { UnshareFlags::empty() };
    let wanted = UnshareFlags::NEWNS | network;
    match unshare(wanted) {
        Ok(()) => {}
        Err(Errno::PERM) => {
            let (user, group) = (rustix::process::geteuid(), rustix::process::getegid());
            unshare(UnshareFlags::NEWUSER | wanted).map_err(refused(USERS))?;
            // Whoever is not root may only map itself, and only once it has given up changing its groups.
            for (file, text) in [
                ("setgroups", "deny".to_owned()),
                ("uid_map", format!("{0} {0} 1", user.as_raw())),
                ("gid_map", format!("{0} {0} 1", group.as_raw())),
            ] {
                let written = fs::write(format!("/proc/self/{file}"), text);
                // Where AppArmor forbids user namespaces, this is what fails.
                let errno = |error: io::Error| Errno::from_io_error(&error).unwrap_or(Errno::IO);
                written.map_err(errno).map_err(refused(NUMBERS))?;
            }
        }
        Err(other) => return Err(refused(MOUNTS)(other)),
    }
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    mount_change("/", private).map_err(refused(PRIVATE))
}

#[allow(
    deprecated,
    reason = "it is called unsafe for FILES alone, which takes descriptors from other threads and is not used here"
)]
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    rustix::thread::unshare(flags)
}

fn refused(step: &'static str) -> impl FnOnce(Errno) -> ExecError {
    move |reason| {
        let setting = |name: &str| {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        let way_out = way_out(reason, setting);
        ExecError::Namespaces { step, reason: io::Error::from(reason), way_out }
    }
}

/// The setting that refuses, by what the kernel answered and what `setting` reads, and what to do about it.
fn way_out(reason: Errno, setting: impl Fn(&str) -> Option<String>) -> String {
    let is = |name: &str, value: &str| setting(name).as_deref() == Some(value);
    if reason == Errno::NOSPC {
        let limits = ["user.max_user_namespaces", "user.max_mnt_namespaces", "user.max_net_namespaces"];
        return match limits.iter().find(|name| is(name, "0")) {
            Some(name) => format!("{name} is 0, set it higher with sysctl"),
            None => format!("one of the limits {} is reached, set it higher with sysctl", limits.join(", ")),
        };
    }
    for (name, refusing, allowing) in [
        ("kernel.unprivileged_userns_clone", "0", "1"),
        ("kernel.apparmor_restrict_unprivileged_userns", "1", "0"),
    ] {
        if is(name, refusing) {
            return format!(
                "{name} is {refusing}, set it to {allowing} with sysctl or run fake-neuron as root"
            );
        }
    }
    "no sysctl says so: in a container run it privileged, or with a seccomp and AppArmor profile that allow unshare and mount"
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusing_setting_is_named() {
        let text = |reason, name: &str, value: &str| {
            way_out(reason, |asked| (asked == name).then(|| value.to_owned()))
        };
        assert_eq!(
            text(Errno::NOSPC, "user.max_user_namespaces", "0"),
            "user.max_user_namespaces is 0, set it higher with sysctl"
        );
        assert_eq!(
            text(Errno::NOSPC, "user.max_user_namespaces", "9"),
            "one of the limits user.max_user_namespaces, user.max_mnt_namespaces, user.max_net_namespaces is reached, set it \
             higher with sysctl"
        );
        assert_eq!(
            text(Errno::PERM, "kernel.unprivileged_userns_clone", "0"),
            "kernel.unprivileged_userns_clone is 0, set it to 1 with sysctl or run fake-neuron as root"
        );
        assert_eq!(
            text(Errno::ACCESS, "kernel.apparmor_restrict_unprivileged_userns", "1"),
            "kernel.apparmor_restrict_unprivileged_userns is 1, set it to 0 with sysctl or run fake-neuron as root"
        );
        assert!(text(Errno::PERM, "", "").starts_with("no sysctl says so"));
    }
}
