//! `clock_gettime`.

use std::mem::transmute;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use libc::{c_int, c_void, clockid_t, timespec};

use crate::STATE;

type ClockGettime = unsafe extern "C" fn(clockid_t, *mut timespec) -> c_int;

/// libc's own function, looked up at the first call.
static LIBC: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// The time of a clock: a simulated thread's own wall and monotonic clock, any other from libc.
///
/// # Safety
/// As libc's: `time` is null or leads to a timespec that may be written.
// SAFETY: the name and the signature are libc's, whose callers keep its contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let simulated = STATE.get().and_then(|state| match clock {
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI => Some(state.wall),
        libc::CLOCK_MONOTONIC
        | libc::CLOCK_MONOTONIC_RAW
        | libc::CLOCK_MONOTONIC_COARSE
        | libc::CLOCK_BOOTTIME => Some(state.monotonic),
        _ => None,
    });
    match simulated {
        Some(simulated) if !time.is_null() => {
            // SAFETY: it is not null, and the caller lends it for writing.
            unsafe { time.write(as_timespec(simulated)) };
            0
        }
        // SAFETY: the arguments are handed on as they came.
        _ => unsafe { libc_clock_gettime(clock, time) },
    }
}

fn as_timespec(time: Duration) -> timespec {
    // A simulated time is far from the year 292 billion.
    let tv_sec = i64::try_from(time.as_secs()).unwrap_or(i64::MAX);
    timespec { tv_sec, tv_nsec: time.subsec_nanos().into() }
}

/// # Safety
/// As libc's.
unsafe fn libc_clock_gettime(clock: clockid_t, time: *mut timespec) -> c_int {
    let mut libc = LIBC.load(Ordering::Relaxed);
    if libc.is_null() {
        // SAFETY: the name is a C string, and RTLD_NEXT is a handle that dlsym knows.
        libc = unsafe { libc::dlsym(libc::RTLD_NEXT, c"clock_gettime".as_ptr()) };
        LIBC.store(libc, Ordering::Relaxed);
    }
    if libc.is_null() {
        // A static binary has no next library: the kernel itself.
        // SAFETY: the system call takes these two arguments.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, time) };
        return c_int::try_from(result).unwrap_or(-1);
    }
    // SAFETY: a symbol of this name in libc has this signature.
    let libc = unsafe { transmute::<*mut c_void, ClockGettime>(libc) };
    // SAFETY: the arguments are handed on as they came.
    unsafe { libc(clock, time) }
}
