//! The choices that Kubernetes leaves open because Go's maps have no order: made from a seed, or as badly as allowed. Used
//! by `device_manager` for ids and their order, by `pods::watch` for the order of admission.

use std::collections::{BTreeSet, VecDeque};

/// How a kubelet makes the choices that Kubernetes leaves open: which ids, and in which order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreeChoices {
    /// Pseudo-random: the same seed, node name and calls give the same choices.
    Seeded(u64),
    /// The worst: scattered ids from both ends, in descending order, and the pod that was bound last is admitted first.
    Adversarial,
}

/// Makes one kubelet's free choices.
#[derive(Debug)]
pub(crate) struct Chooser {
    choices: FreeChoices,
    state: u64,
}

impl Chooser {
    pub(super) fn new(choices: FreeChoices, node: &str) -> Self {
        let seed = match choices {
            FreeChoices::Seeded(seed) => seed,
            FreeChoices::Adversarial => 0,
        };
        // FNV-1a over the name, so that equal seeds still choose differently on different nodes.
        let name = node.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { choices, state: seed ^ name }
    }

    /// Whether pods that wait together are admitted in the reverse order.
    pub(crate) fn reverses_admission(&self) -> bool {
        self.choices == FreeChoices::Adversarial
    }

    /// `items` in the chosen order; a caller that needs only some takes the first ones.
    pub(crate) fn order<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        match self.choices {
            FreeChoices::Seeded(_) => {
                for last in (1..items.len()).rev() {
                    items.swap(last, self.below(last + 1));
                }
                items
            }
            FreeChoices::Adversarial => from_both_ends(items),
        }
    }

    /// `ids` in the chosen order.
    pub(crate) fn order_ids(&mut self, ids: &BTreeSet<String>) -> Vec<String> {
        let mut ids: Vec<String> = ids.iter().cloned().collect();
        ids.sort_by_key(|id| name_and_number(id));
        self.order(ids)
    }

    /// A number in `0..bound` (SplitMix64).
    fn below(&mut self, bound: usize) -> usize {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        usize::try_from(mixed % bound.max(1) as u64).unwrap_or(0)
    }
}

/// The highest, the lowest, the second highest and so on: never neighbours as long as that is possible.
fn from_both_ends<T>(items: Vec<T>) -> Vec<T> {
    let mut rest = VecDeque::from(items);
    let mut chosen = Vec::with_capacity(rest.len());
    while let Some(item) = if chosen.len() % 2 == 0 { rest.pop_back() } else { rest.pop_front() } {
        chosen.push(item);
    }
    chosen
}

/// A sort key that puts `widget10` after `widget9`: the part before the closing digits, then their value.
fn name_and_number(id: &str) -> (String, u64) {
    let name = id.trim_end_matches(|digit: char| digit.is_ascii_digit());
    (name.to_owned(), id[name.len()..].parse().unwrap_or(0))
}
