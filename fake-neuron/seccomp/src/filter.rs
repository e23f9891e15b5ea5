//! Builds the BPF program that says which calls wait for the supervisor, and installs it on the calling thread.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use libc::{
    BPF_ABS, BPF_ALU, BPF_AND, BPF_JEQ, BPF_JMP, BPF_JSET, BPF_K, BPF_LD, BPF_RET, BPF_RSH, BPF_W, c_ulong,
    sock_filter,
};

use crate::arch::{AUDIT_ARCH, old};

/// Which calls wait for the supervisor, besides opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Watched {
    /// Ioctls whose command has this type byte (bits 8 to 15 of the command).
    pub ioctl_type: u8,
    /// The calls that tell a file's type.
    pub stat: Stats,
    /// `connect`.
    pub connect: bool,
}

/// Which of `stat`, `lstat`, `fstat`, `newfstatat` and `statx` wait: each costs a round trip, so only those whose answer must differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stats {
    /// None.
    None,
    /// Those of open files: `fstat`, and the others with `AT_EMPTY_PATH`.
    OfDescriptors,
    /// All.
    All,
}

/// A program for the kernel that makes the watched calls wait and lets every other call through, those of another processor's
/// programs (32-bit ones) too.
#[derive(Clone, Debug)]
pub struct Filter {
    program: Vec<sock_filter>,
}

impl Filter {
    /// The filter for these calls. Opens that no driver sees (`O_PATH`, `O_DIRECTORY`) go through.
    pub fn new(watched: Watched) -> Filter {
        let mut program =
            vec![load(ARCH), on_equal(AUDIT_ARCH, 1, 0), ret(libc::SECCOMP_RET_ALLOW), load(NUMBER)];
        for (number, argument) in [(old::OPEN, 1), (Some(libc::SYS_openat), 2)] {
            let test = [load(argument_at(argument)), on_any_bit(unseen_flags(), 1, 0)];
            add(&mut program, number, &test);
        }
        let kind = [
            load(argument_at(1)),
            statement(BPF_ALU | BPF_RSH | BPF_K, 8),
            statement(BPF_ALU | BPF_AND | BPF_K, 0xff),
            on_equal(u32::from(watched.ioctl_type), 0, 1),
        ];
        add(&mut program, Some(libc::SYS_ioctl), &kind);
        let mut plain = vec![old::CREAT, Some(libc::SYS_openat2)];
        match watched.stat {
            Stats::None => {}
            Stats::OfDescriptors => {
                plain.push(Some(libc::SYS_fstat));
                for (number, argument) in [(libc::SYS_newfstatat, 3), (libc::SYS_statx, 2)] {
                    let test = [load(argument_at(argument)), on_any_bit(empty_path(), 0, 1)];
                    add(&mut program, Some(number), &test);
                }
            }
            Stats::All => {
                let stats = [libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx];
                plain.extend([old::STAT, old::LSTAT].into_iter().chain(stats.map(Some)));
            }
        }
        if watched.connect {
            plain.push(Some(libc::SYS_connect));
        }
        for number in plain {
            add(&mut program, number, &[]);
        }
        program.push(ret(libc::SECCOMP_RET_ALLOW));
        Filter { program }
    }

    /// Puts the filter on the calling thread, which must be about to run what is watched: it, and all that it starts, keeps the
    /// filter for ever. Gives privileges up for good (`no_new_privs`) where the caller may not install filters otherwise.
    ///
    /// Allocates nothing, so it may be called between fork and exec.
    ///
    /// # Errors
    /// The kernel's refusal: `EINVAL` or `ENOSYS` where it has no user notification, `EBUSY` where the thread has a listener
    /// already.
    pub fn install(&self) -> io::Result<OwnedFd> {
        match self.install_with(FLAGS) {
            // The second flag is from Linux 5.19: without it a signal can make a call start again.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                self.install_with(libc::SECCOMP_FILTER_FLAG_NEW_LISTENER)
            }
            other => other,
        }
    }

    fn install_with(&self, flags: c_ulong) -> io::Result<OwnedFd> {
        match self.call_seccomp(flags) {
            Err(error) if error.raw_os_error() == Some(libc::EACCES) => {
                rustix::thread::set_no_new_privs(true)?;
                self.call_seccomp(flags)
            }
            other => other,
        }
    }

    fn call_seccomp(&self, flags: c_ulong) -> io::Result<OwnedFd> {
        let length = u16::try_from(self.program.len()).unwrap_or(u16::MAX);
        let program = libc::sock_fprog { len: length, filter: self.program.as_ptr().cast_mut() };
        // SAFETY: `program` names `length` instructions that live until the call returns; the kernel copies them and writes nothing.
        let made = unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                flags,
                std::ptr::from_ref(&program),
            )
        };
        let descriptor = i32::try_from(made).map_err(|_| io::ErrorKind::InvalidData)?;
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just made this descriptor for us, and nobody else knows it.
        Ok(unsafe { OwnedFd::from_raw_fd(descriptor) })
    }
}

const FLAGS: c_ulong = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER | libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV;

/// Places in `struct seccomp_data`, in bytes.
const NUMBER: u32 = 0;
const ARCH: u32 = 4;

/// The low half of an argument (0 to 5): both processors are little-endian.
const fn argument_at(argument: u32) -> u32 {
    16 + 8 * argument
}

fn unseen_flags() -> u32 {
    (libc::O_PATH | libc::O_DIRECTORY).cast_unsigned()
}

fn empty_path() -> u32 {
    libc::AT_EMPTY_PATH.cast_unsigned()
}

/// Adds what happens to call `number`: it waits, unless `test` skips an instruction.
fn add(program: &mut Vec<sock_filter>, number: Option<i64>, test: &[sock_filter]) {
    let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else { return };
    let returns = [ret(libc::SECCOMP_RET_USER_NOTIF), ret(libc::SECCOMP_RET_ALLOW)];
    // Tests are a few instructions long.
    let length = u8::try_from(test.len() + returns.len()).unwrap_or(u8::MAX);
    program.push(on_equal(number, 0, length));
    program.extend(test);
    program.extend(returns);
}

fn load(place: u32) -> sock_filter {
    statement(BPF_LD | BPF_W | BPF_ABS, place)
}

fn ret(value: u32) -> sock_filter {
    statement(BPF_RET | BPF_K, value)
}

/// Skips `then` instructions where what was loaded is `value`, `otherwise` where it is not.
fn on_equal(value: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { jt: then, jf: otherwise, ..statement(BPF_JMP | BPF_JEQ | BPF_K, value) }
}

/// Skips `then` instructions where what was loaded has any of the bits, `otherwise` where it has none.
fn on_any_bit(bits: u32, then: u8, otherwise: u8) -> sock_filter {
    sock_filter { jt: then, jf: otherwise, ..statement(BPF_JMP | BPF_JSET | BPF_K, bits) }
}

fn statement(code: u32, value: u32) -> sock_filter {
    // Codes are below 256.
    sock_filter { code: u16::try_from(code).unwrap_or_default(), jt: 0, jf: 0, k: value }
}
