//! A caller's memory, as the driver uses it: what it reads comes whole or not at all, what it writes may fail in the middle.

use fake_neuron_seccomp as seccomp;
use rustix::io::Errno;

/// Memory that the driver reads from and writes to.
pub(crate) trait Memory {
    /// The bytes at `address`.
    ///
    /// # Errors
    /// Not all of them can be read.
    fn read(&self, address: u64, size: usize) -> Result<Vec<u8>, Errno>;

    /// Writes; how many bytes were left over, which the driver returns as its answer.
    fn write(&self, address: u64, bytes: &[u8]) -> i64;
}

/// The memory of a process, by the id of one of its threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessMemory(pub(crate) u32);

impl Memory for ProcessMemory {
    fn read(&self, address: u64, size: usize) -> Result<Vec<u8>, Errno> {
        let mut bytes = vec![0; size];
        seccomp::read(self.0, address, &mut bytes).map_err(|_| Errno::FAULT)?;
        Ok(bytes)
    }

    fn write(&self, address: u64, bytes: &[u8]) -> i64 {
        let written = seccomp::write(self.0, address, bytes).unwrap_or_default();
        i64::try_from(bytes.len() - written).unwrap_or(i64::MAX)
    }
}
