//! Reservations of cores as values, for who has no processes to answer: a cluster in one process.

use std::ops::RangeInclusive;

use rustix::io::Errno;

use super::reservations::{Refusal, Reservations};
use crate::Blueprint;
use crate::fault::Fault;

/// The cores of a machine that containers have reserved, each known by `H`.
#[derive(Clone, Debug)]
pub struct Reserved<H> {
    cores_per_device: u32,
    reservations: Reservations<H>,
}

impl<H: Clone + PartialEq> Reserved<H> {
    /// No core of this machine is reserved.
    pub fn of(machine: &Blueprint) -> Self {
        let cores_per_device = u32::from(machine.description().cores_per_device);
        Self { cores_per_device, reservations: Reservations::default() }
    }

    /// Reserves all of these cores for `holder`. They are physical and count from the first core of `device`, an id on the host.
    ///
    /// # Errors
    /// `EBUSY`: somebody holds one of them, or a fault does; `EINVAL`: the driver has no place for them.
    pub fn reserve(
        &mut self,
        holder: H,
        device: u8,
        cores: RangeInclusive<u32>,
        faults: &[Fault],
    ) -> Result<(), Errno> {
        let offset = u32::from(device) * self.cores_per_device;
        let (first, last) = cores.into_inner();
        let count = last.saturating_sub(first).saturating_add(1);
        // As the driver counts.
        let [first, last] = [first, last].map(|core| core.wrapping_add(offset));
        let is_held = |core| {
            u16::try_from(core).is_ok_and(|core| faults.iter().any(|fault| fault.holds(core).is_some()))
        };
        match self.reservations.mark(holder, count, first, last, is_held) {
            Ok(_) => Ok(()),
            Err(Refusal::Invalid) => Err(Errno::INVAL),
            Err(Refusal::Busy { .. }) => Err(Errno::BUSY),
        }
    }

    /// Gives back what the holder, which has ended, has reserved.
    pub fn release(&mut self, holder: &H) {
        self.reservations.release(holder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn cores_are_one_holders_until_it_ends() {
        let machine = Machine::builder("trn1.32xlarge").blueprint().unwrap();
        let mut reserved = Reserved::of(&machine);
        assert_eq!(reserved.reserve("first", 3, 0..=1, &[]), Ok(()));
        assert_eq!(reserved.reserve("second", 3, 1..=1, &[]), Err(Errno::BUSY));
        assert_eq!(reserved.reserve("second", 2, 2..=3, &[]), Err(Errno::BUSY), "they are device 3's");
        assert_eq!(reserved.reserve("second", 2, 0..=1, &[]), Ok(()));
        reserved.release(&"first");
        assert_eq!(reserved.reserve("second", 3, 0..=1, &[]), Ok(()));
        assert_eq!(reserved.reserve("third", 15, 0..=600, &[]), Err(Errno::INVAL));
        let held = [Fault::CoreHeld { core: 1, pid: 4711 }];
        assert_eq!(reserved.reserve("third", 0, 0..=1, &held), Err(Errno::BUSY));
    }
}
