//! Random numbers: a stream for each part and kind, so that one part that draws once more changes nothing for the others.

/// A stream of random numbers.
pub use fastrand::Rng;

/// The stream of this label in the simulation of this seed: the same for the same pair.
pub fn stream(seed: u64, label: &str) -> Rng {
    Rng::with_seed(mix(seed ^ hash(label.as_bytes())))
}

/// FNV-1a: the same in every build and on every machine.
pub fn hash(bytes: &[u8]) -> u64 {
    extend(EMPTY, bytes)
}

/// The hash of no bytes.
pub(crate) const EMPTY: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of what was hashed before and these bytes.
pub(crate) fn extend(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Spreads close seeds (the finalizer of SplitMix64).
fn mix(seed: u64) -> u64 {
    let mixed = (seed ^ (seed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_and_label_and_are_the_same_for_the_same() {
        let first = |seed, label| stream(seed, label).u64(..);
        assert_eq!(first(1, "a"), first(1, "a"));
        let all = [first(1, "a"), first(2, "a"), first(1, "b"), first(2, "b")];
        assert!((0..4).all(|one| (0..one).all(|other| all[one] != all[other])), "{all:?}");
    }
}
