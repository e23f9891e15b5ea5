//! Who has reserved which core: the driver's own bookkeeping, with its own search. Pure: called by [`super::driver`] for processes, and
//! by [`super::reserved`].

use std::collections::BTreeMap;

use super::caller::Process;

/// The driver has this many places, whatever the host: sixty-four devices of eight cores. Cores are physical and counted over the
/// host.
pub(crate) const CORES: u32 = 512;

/// Who holds which core.
#[derive(Clone, Debug)]
pub(crate) struct Reservations<H = Process> {
    holders: BTreeMap<u32, H>,
}

impl<H> Default for Reservations<H> {
    fn default() -> Self {
        Self { holders: BTreeMap::new() }
    }
}

/// Why no cores could be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The range is none.
    Invalid,
    /// No run of free cores is long enough; the longest that was seen.
    Busy {
        /// Cores.
        longest: u32,
    },
}

impl<H: Clone + PartialEq> Reservations<H> {
    /// Reserves the first `count` consecutive free cores from `first` to `last`; which ones.
    ///
    /// The driver's search is taken as it is: after a run that is too short it goes on two cores behind the taken one, and so can miss a
    /// run that would do; of no cores it asks for one free core.
    ///
    /// # Errors
    /// The range is none, or no run is free.
    pub(crate) fn mark(
        &mut self,
        holder: H,
        count: u32,
        first: u32,
        last: u32,
        is_held: impl Fn(u32) -> bool,
    ) -> Result<Vec<u32>, Refusal> {
        if first > last || last >= CORES {
            return Err(Refusal::Invalid);
        }
        let is_free = |core: u32| !self.holders.contains_key(&core) && !is_held(core);
        let (mut longest, mut start) = (0, first);
        while start <= last {
            if !is_free(start) {
                start += 1;
                continue;
            }
            let end = last.min(start.saturating_add(count).saturating_sub(1));
            let taken = (start..=end).find(|core| !is_free(*core));
            let run = (taken.unwrap_or(end + 1).max(start + 1)) - start;
            if run >= count {
                let cores: Vec<u32> =
                    (start..=end).take(usize::try_from(count).unwrap_or(usize::MAX)).collect();
                self.holders.extend(cores.iter().map(|core| (*core, holder.clone())));
                return Ok(cores);
            }
            longest = longest.max(run);
            start = taken.unwrap_or(end + 1) + 2;
        }
        Err(Refusal::Busy { longest })
    }

    /// Gives back those of `cores` that it holds.
    pub(crate) fn unmark(&mut self, holder: &H, cores: impl IntoIterator<Item = u32>) {
        for core in cores {
            if self.holders.get(&core) == Some(holder) {
                self.holders.remove(&core);
            }
        }
    }

    /// Gives back everything that it holds.
    pub(crate) fn release(&mut self, holder: &H) {
        self.holders.retain(|_, of| of != holder);
    }

    /// What it holds, in order.
    pub(crate) fn cores_of(&self, holder: &H) -> impl Iterator<Item = u32> {
        self.holders.iter().filter(move |(_, of)| *of == holder).map(|(core, _)| *core)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}
