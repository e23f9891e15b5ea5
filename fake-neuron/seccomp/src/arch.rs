//! The processor's own numbers: of its system calls and of itself. Read by the filter and by what decodes calls.

/// What the kernel calls this processor in `struct seccomp_data` (`linux/audit.h`).
#[cfg(target_arch = "x86_64")]
pub(crate) const AUDIT_ARCH: u32 = 0xC000_003E;
/// What the kernel calls this processor in `struct seccomp_data` (`linux/audit.h`).
#[cfg(target_arch = "aarch64")]
pub(crate) const AUDIT_ARCH: u32 = 0xC000_00B7;

/// System calls that only older processors have, by number.
#[cfg(target_arch = "x86_64")]
pub(crate) mod old {
    pub(crate) const OPEN: Option<i64> = Some(libc::SYS_open);
    pub(crate) const CREAT: Option<i64> = Some(libc::SYS_creat);
    pub(crate) const STAT: Option<i64> = Some(libc::SYS_stat);
    pub(crate) const LSTAT: Option<i64> = Some(libc::SYS_lstat);
}

/// System calls that only older processors have: here none.
#[cfg(target_arch = "aarch64")]
pub(crate) mod old {
    pub(crate) const OPEN: Option<i64> = None;
    pub(crate) const CREAT: Option<i64> = None;
    pub(crate) const STAT: Option<i64> = None;
    pub(crate) const LSTAT: Option<i64> = None;
}
