//! What a waiting call asks for, read from its number and arguments. Addresses are the caller's.

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, seccomp_data};

use crate::arch::old;

/// A call that waits for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `open`, `openat` or `creat`.
    Open {
        /// Descriptor of the folder that a relative path starts from, or `AT_FDCWD`.
        folder: i32,
        /// Address of the path, NUL-terminated.
        path: u64,
        /// `O_` flags.
        flags: i32,
    },
    /// `openat2`, whose flags are in memory.
    OpenHow {
        /// Descriptor of the folder that a relative path starts from, or `AT_FDCWD`.
        folder: i32,
        /// Address of the path, NUL-terminated.
        path: u64,
        /// Address of `struct open_how`: flags, mode and resolve, 8 bytes each.
        how: u64,
        /// Bytes at `how`.
        size: u64,
    },
    /// `ioctl`.
    Ioctl {
        /// The descriptor.
        file: i32,
        /// The command.
        command: u32,
        /// The third argument, most often an address.
        argument: u64,
    },
    /// One of the calls that tell a file's type and times.
    Stat {
        /// Descriptor of the folder that a relative path starts from, or `AT_FDCWD`; without a path the file itself.
        folder: i32,
        /// Address of the path, NUL-terminated; none for `fstat`.
        path: Option<u64>,
        /// `AT_` flags.
        flags: i32,
        /// Address where the answer goes.
        answer: u64,
        /// The answer's form.
        form: StatForm,
    },
    /// `connect`.
    Connect {
        /// The socket's descriptor.
        socket: i32,
        /// Address of the socket address.
        address: u64,
        /// Bytes at `address`.
        length: u64,
    },
    /// A call that the filter does not watch, by number: another filter with the same listener.
    Other(i64),
}

/// How a file's type and times are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatForm {
    /// `struct stat`.
    Stat,
    /// `struct statx`.
    Statx,
}

impl Call {
    /// The call that the kernel told of.
    pub(crate) fn from(data: &seccomp_data) -> Call {
        let [first, second, third, fourth, fifth, _] = data.args;
        let stat =
            |folder, path, flags, answer| Call::Stat { folder, path, flags, answer, form: StatForm::Stat };
        match i64::from(data.nr) {
            number if old::OPEN == Some(number) => {
                Call::Open { folder: AT_FDCWD, path: first, flags: int(second) }
            }
            number if old::CREAT == Some(number) => {
                let flags = libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC;
                Call::Open { folder: AT_FDCWD, path: first, flags }
            }
            libc::SYS_openat => Call::Open { folder: int(first), path: second, flags: int(third) },
            libc::SYS_openat2 => Call::OpenHow { folder: int(first), path: second, how: third, size: fourth },
            libc::SYS_ioctl => {
                Call::Ioctl { file: int(first), command: int(second).cast_unsigned(), argument: third }
            }
            number if old::STAT == Some(number) => stat(AT_FDCWD, Some(first), 0, second),
            number if old::LSTAT == Some(number) => stat(AT_FDCWD, Some(first), AT_SYMLINK_NOFOLLOW, second),
            libc::SYS_fstat => stat(int(first), None, 0, second),
            libc::SYS_newfstatat => stat(int(first), Some(second), int(fourth), third),
            libc::SYS_statx => Call::Stat {
                folder: int(first),
                path: Some(second),
                flags: int(third),
                answer: fifth,
                form: StatForm::Statx,
            },
            libc::SYS_connect => Call::Connect { socket: int(first), address: second, length: third },
            other => Call::Other(other),
        }
    }
}

/// An argument of type `int`: the kernel looks at the low half only.
fn int(argument: u64) -> i32 {
    (argument as u32).cast_signed()
}
