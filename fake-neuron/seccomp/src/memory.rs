//! Reads and writes another process' memory. What is read is that of whoever has the process id now: check with
//! [`crate::Listener::is_valid`] afterwards.

use std::ffi::CString;
use std::io;

use libc::{c_void, iovec};

/// Longest path that the kernel takes, its NUL included.
const PATH_MAX: usize = 4096;
/// No page is smaller.
const PAGE: u64 = 4096;

/// Fills `buffer` from the process' memory at `address`.
///
/// # Errors
/// `EFAULT` where not all of it can be read, `EPERM` where this process may not look, `ESRCH` where there is no such process.
pub fn read(process: u32, address: u64, buffer: &mut [u8]) -> io::Result<()> {
    let mut done = 0;
    while done < buffer.len() {
        let (from, length) = within_page(address, done, buffer.len());
        let part = &mut buffer[done..done + length];
        let local = iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() };
        let remote = iovec { iov_base: from, iov_len: part.len() };
        // SAFETY: `local` names the bytes of `part`, which is borrowed mutably for as long as the call takes; `remote` is an address of
        // another process, which the kernel checks.
        let copied = unsafe { libc::process_vm_readv(pid(process)?, &local, 1, &remote, 1, 0) };
        done += moved(copied)?;
    }
    Ok(())
}

/// Whether this process may read processes' memory at all, as a container's seccomp profile may forbid: tried on its own.
///
/// # Errors
/// The kernel's refusal, such as `EPERM` or `ENOSYS`.
pub fn may_read() -> io::Result<()> {
    let own = [1];
    read(std::process::id(), own.as_ptr().addr() as u64, &mut [0])
}

/// Writes `bytes` to the process' memory at `address`; how many of them could be written.
///
/// # Errors
/// `EPERM` where this process may not, `ESRCH` where there is no such process.
pub fn write(process: u32, address: u64, bytes: &[u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < bytes.len() {
        let (to, length) = within_page(address, done, bytes.len());
        let part = &bytes[done..done + length];
        let local = iovec { iov_base: part.as_ptr().cast_mut().cast(), iov_len: part.len() };
        let remote = iovec { iov_base: to, iov_len: part.len() };
        // SAFETY: the kernel only reads the bytes of `part`, which are borrowed for as long as the call takes; `remote` is an address of
        // another process, which the kernel checks.
        let copied = unsafe { libc::process_vm_writev(pid(process)?, &local, 1, &remote, 1, 0) };
        match moved(copied) {
            Ok(count) => done += count,
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// The NUL-terminated path at `address`, without its end.
///
/// # Errors
/// Those of [`read`], and `ENAMETOOLONG` where no NUL comes within 4096 bytes.
pub fn read_path(process: u32, address: u64) -> io::Result<CString> {
    let mut path = Vec::new();
    while path.len() < PATH_MAX {
        let (_, length) = within_page(address, path.len(), PATH_MAX);
        let mut part = vec![0; length];
        read(process, address.wrapping_add(path.len() as u64), &mut part)?;
        let end = part.iter().position(|byte| *byte == 0);
        path.extend_from_slice(&part[..end.unwrap_or(length)]);
        if end.is_some() {
            return CString::new(path).map_err(io::Error::other);
        }
    }
    Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
}

/// The next piece, none of which is on two pages: the kernel copies a piece in full or not at all.
fn within_page(address: u64, done: usize, all: usize) -> (*mut c_void, usize) {
    let at = address.wrapping_add(done as u64);
    let to_the_end = usize::try_from(PAGE - at % PAGE).unwrap_or(usize::MAX);
    (std::ptr::without_provenance_mut(usize::try_from(at).unwrap_or(usize::MAX)), to_the_end.min(all - done))
}

fn pid(process: u32) -> io::Result<i32> {
    i32::try_from(process).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))
}

fn moved(copied: isize) -> io::Result<usize> {
    match usize::try_from(copied) {
        Ok(0) => Err(io::Error::from_raw_os_error(libc::EFAULT)),
        Ok(count) => Ok(count),
        Err(_) => Err(io::Error::last_os_error()),
    }
}
