//! The hosts' addresses, which follow from their numbers.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Where a host is in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostAddress {
    /// Number among all hosts, from 0, as links are named by.
    pub(crate) number: usize,
    /// Its address, in 10.0.0.0/16.
    pub(crate) ip: Ipv4Addr,
}

/// The addresses that are given out.
#[derive(Default)]
pub(super) struct HostAddresses {
    hosts: AtomicUsize,
}

impl HostAddresses {
    /// The next one.
    pub(super) fn add(&self) -> HostAddress {
        let number = self.hosts.fetch_add(1, Ordering::Relaxed);
        let [high, low] = u16::try_from(number + 1).unwrap_or(u16::MAX).to_be_bytes();
        HostAddress { number, ip: Ipv4Addr::new(10, 0, high, low) }
    }

    /// Whether there is a host with this address, and its number.
    pub(super) fn host_at(&self, ip: Ipv4Addr) -> Option<usize> {
        let [10, 0, high, low] = ip.octets() else { return None };
        let number = usize::from(u16::from_be_bytes([high, low])).checked_sub(1)?;
        (number < self.hosts.load(Ordering::Relaxed)).then_some(number)
    }
}
