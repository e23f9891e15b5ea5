//! Sets of device ids and of logical core ids, and the ids that kubelet knows. Read by every other module.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The most devices that a node can have: the driver's own limit (docs/reference/neuron.md §4.1).
pub const MAX_DEVICES: usize = 64;
/// The most logical cores that a node can have: trn2.48xlarge at LNC 1 has 16 x 8.
pub const MAX_CORES: usize = 128;

macro_rules! id_set {
    ($(#[$doc:meta])* $name:ident, $bits:ty, $max:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        pub struct $name($bits);

        impl $name {
            /// The set without members.
            pub const EMPTY: Self = Self(0);

            /// The set of one id; empty if the id is out of range.
            pub const fn single(id: u8) -> Self {
                if (id as usize) < $max { Self(1 << id) } else { Self(0) }
            }

            /// `count` consecutive ids from `first`; ids out of range are left out.
            pub const fn run(first: u8, count: u8) -> Self {
                let first = first as usize;
                Self::below(first + count as usize).difference(Self::below(first))
            }

            /// The ids from 0 to `end`, which is none of them.
            const fn below(end: usize) -> Self {
                if end < $max { Self((1 << end) - 1) } else { Self(<$bits>::MAX) }
            }

            /// The set whose members are the one bits, bit 0 first.
            pub const fn from_bits(bits: $bits) -> Self {
                Self(bits)
            }

            /// The members as bits, bit 0 first.
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Whether `id` is a member.
            pub const fn contains(self, id: u8) -> bool {
                (id as usize) < $max && self.0 >> id & 1 == 1
            }

            /// Number of members.
            pub const fn len(self) -> u32 {
                self.0.count_ones()
            }

            /// Whether there is no member.
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether every member is in `other`.
            pub const fn is_subset(self, other: Self) -> bool {
                self.0 & !other.0 == 0
            }

            /// Whether the two share a member.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// Members of either.
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// Members of both.
            pub const fn intersection(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }

            /// Members that are not in `other`.
            pub const fn difference(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }

            /// The smallest member.
            pub fn first(self) -> Option<u8> {
                self.iter().next()
            }

            /// Members in ascending order.
            pub fn iter(self) -> impl Iterator<Item = u8> {
                let mut rest = self.0;
                std::iter::from_fn(move || {
                    if rest == 0 {
                        return None;
                    }
                    let id = rest.trailing_zeros() as u8;
                    rest &= rest - 1;
                    Some(id)
                })
            }
        }

        impl FromIterator<u8> for $name {
            fn from_iter<I: IntoIterator<Item = u8>>(ids: I) -> Self {
                ids.into_iter().fold(Self::EMPTY, |set, id| set.union(Self::single(id)))
            }
        }

        /// The ids in ascending order, comma separated: `2,3`.
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                for (place, id) in self.iter().enumerate() {
                    if place > 0 {
                        f.write_str(",")?;
                    }
                    write!(f, "{id}")?;
                }
                Ok(())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{{{self}}}")
            }
        }

        /// Writes a sorted list of numbers.
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_seq(self.iter())
            }
        }

        /// Reads a list of numbers in any order; an id out of range or one that stands twice is an error.
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::try_from_ids(&Vec::<u64>::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }

        impl $name {
            /// The set of these ids, in any order.
            ///
            /// # Errors
            /// [`IdError`] if an id is out of range or stands twice.
            pub fn try_from_ids(ids: &[u64]) -> Result<Self, IdError> {
                let mut set = Self::EMPTY;
                for &id in ids {
                    let small = u8::try_from(id).ok().filter(|small| (*small as usize) < $max);
                    let small = small.ok_or(IdError::OutOfRange { id, most: $max - 1 })?;
                    if set.contains(small) {
                        return Err(IdError::Repeated { id });
                    }
                    set = set.union(Self::single(small));
                }
                Ok(set)
            }
        }

        /// Reads a comma list: `2,3`. The empty text is the empty set.
        impl FromStr for $name {
            type Err = IdError;

            fn from_str(text: &str) -> Result<Self, IdError> {
                let ids = text.split(',').map(str::trim).filter(|part| !part.is_empty());
                let ids = ids.map(|part| part.parse().map_err(|_| IdError::NotANumber { text: part.to_owned() }));
                Self::try_from_ids(&ids.collect::<Result<Vec<u64>, _>>()?)
            }
        }
    };
}

id_set!(
    /// A set of device ids of one node, 0 to 63.
    DeviceSet,
    u64,
    MAX_DEVICES
);
id_set!(
    /// A set of logical core ids of one node, 0 to 127.
    CoreSet,
    u128,
    MAX_CORES
);

/// Why a text or list is not a set of ids, or a text no id of kubelet's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Not a decimal number.
    #[error("{text:?} is not an id; use numbers separated by commas")]
    NotANumber {
        /// What stood in its place.
        text: String,
    },
    /// An id larger than any node has.
    #[error("id {id} is out of range 0 to {most}")]
    OutOfRange {
        /// The number that was read.
        id: u64,
        /// The largest id allowed: 63 for devices, 127 for cores.
        most: usize,
    },
    /// The same id twice.
    #[error("id {id} stands twice")]
    Repeated {
        /// Device id, 0 to 63, or core id, 0 to 127.
        id: u64,
    },
    /// Not an id that the device plugin advertises.
    #[error("{text:?} is not a Neuron device id; expected neuronN or neuroncoreN")]
    NotKubelet {
        /// What stood in its place.
        text: String,
    },
}

/// A device id toward kubelet, which names real hardware: `neuron3`, `neuroncore12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubeletId {
    /// A device, 0 to 63.
    Device(u8),
    /// A logical core in host numbering, 0 to 127.
    Core(u8),
}

impl fmt::Display for KubeletId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KubeletId::Device(id) => write!(f, "neuron{id}"),
            KubeletId::Core(id) => write!(f, "neuroncore{id}"),
        }
    }
}

impl FromStr for KubeletId {
    type Err = IdError;

    fn from_str(text: &str) -> Result<Self, IdError> {
        let wrong = || IdError::NotKubelet { text: text.to_owned() };
        // "neuroncore" starts with "neuron": the longer prefix must be tried first.
        let (digits, core) = match text.strip_prefix("neuroncore") {
            Some(digits) => (digits, true),
            None => (text.strip_prefix("neuron").ok_or_else(wrong)?, false),
        };
        let plain =
            digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
        let id: u8 = digits.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        match core {
            true if (id as usize) < MAX_CORES => Ok(KubeletId::Core(id)),
            false if (id as usize) < MAX_DEVICES => Ok(KubeletId::Device(id)),
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_print_and_parse_as_comma_lists() {
        let set: CoreSet = "3,2".parse().unwrap();
        assert_eq!(set.to_string(), "2,3");
        assert_eq!(serde_json::to_string(&set).unwrap(), "[2,3]");
        assert_eq!("".parse::<DeviceSet>().unwrap(), DeviceSet::EMPTY);
        assert_eq!(
            "1,x".parse::<DeviceSet>().unwrap_err().to_string(),
            "\"x\" is not an id; use numbers separated by commas"
        );
        assert_eq!("64".parse::<DeviceSet>().unwrap_err().to_string(), "id 64 is out of range 0 to 63");
        assert_eq!("1,1".parse::<CoreSet>().unwrap_err().to_string(), "id 1 stands twice");
    }

    #[test]
    fn a_run_has_the_ids_that_it_counts_and_none_out_of_range() {
        for first in 0..=u8::MAX {
            for count in 0..=u8::MAX {
                let ids = u16::from(first)..u16::from(first) + u16::from(count);
                let of = |most: usize| {
                    let ids = ids.clone().map(usize::from).filter(move |id| *id < most);
                    ids.map(|id| id as u8).collect::<Vec<u8>>()
                };
                assert_eq!(
                    DeviceSet::run(first, count).iter().collect::<Vec<_>>(),
                    of(64),
                    "{first} {count}"
                );
                assert_eq!(CoreSet::run(first, count).iter().collect::<Vec<_>>(), of(128), "{first} {count}");
            }
        }
    }

    #[test]
    fn kubelet_ids_name_hardware() {
        assert_eq!("neuroncore12".parse(), Ok(KubeletId::Core(12)));
        assert_eq!("neuron3".parse(), Ok(KubeletId::Device(3)));
        assert_eq!(KubeletId::Core(127).to_string().parse(), Ok(KubeletId::Core(127)));
        for wrong in ["neuron", "neuron03", "neuron64", "neuroncore128", "neuron+1", "gpu1"] {
            assert!(wrong.parse::<KubeletId>().is_err(), "{wrong}");
        }
    }
}
