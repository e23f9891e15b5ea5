//! `getrandom`.

use std::slice;

use libc::{c_uint, c_void, size_t, ssize_t};

use crate::{STATE, State};

/// Random bytes: a simulated thread's from its seed, any other's from the kernel.
///
/// # Safety
/// As libc's: `buffer` leads to `length` bytes that may be written.
// SAFETY: the name and the signature are libc's, whose callers keep its contract.
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: size_t, flags: c_uint) -> ssize_t {
    let Some(mut state) = STATE.get().filter(|_| !buffer.is_null()) else {
        // SAFETY: the system call takes these three arguments.
        let result = unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) };
        return ssize_t::try_from(result).unwrap_or(-1);
    };
    // SAFETY: it is not null, and the caller lends so many bytes for writing.
    let bytes = unsafe { slice::from_raw_parts_mut(buffer.cast::<u8>(), length) };
    for chunk in bytes.chunks_mut(8) {
        let drawn = next(&mut state).to_ne_bytes();
        chunk.copy_from_slice(&drawn[..chunk.len()]);
    }
    STATE.set(Some(state));
    ssize_t::try_from(length).unwrap_or(ssize_t::MAX)
}

/// SplitMix64: any seed is good, and every state is met once.
fn next(state: &mut State) -> u64 {
    state.random = state.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = state.random;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
