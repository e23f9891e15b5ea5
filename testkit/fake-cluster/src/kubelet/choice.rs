//! The choices Kubernetes leaves open (Go's map order), made from a seed or made as unhelpful as possible.
//! Asked by `allocate` for ids and orders, by `pods` for the order of admission.

use std::collections::BTreeSet;

use super::config::{Choice, KubeletConfig};

/// Makes one kubelet's free choices.
#[derive(Debug)]
pub(crate) struct Chooser {
    choice: Choice,
    state: u64,
}

impl Chooser {
    pub(crate) fn new(config: &KubeletConfig) -> Self {
        // FNV-1a over the name, so that equal seeds still choose differently on different nodes.
        let name = config.node.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self { choice: config.choice, state: config.seed ^ name }
    }

    /// Whether pods that wait together are admitted last come, first served.
    pub(crate) fn reverses_admission(&self) -> bool {
        self.choice == Choice::Hostile
    }

    /// `items` in the order chosen; whoever needs only some takes the first ones.
    pub(crate) fn order<T>(&mut self, mut items: Vec<T>) -> Vec<T> {
        match self.choice {
            Choice::Seeded => {
                for last in (1..items.len()).rev() {
                    items.swap(last, self.below(last + 1));
                }
                items
            }
            Choice::Hostile => from_both_ends(items),
        }
    }

    /// `ids` in the order chosen.
    pub(crate) fn order_ids(&mut self, ids: &BTreeSet<String>) -> Vec<String> {
        let mut ids: Vec<String> = ids.iter().cloned().collect();
        ids.sort_by_key(|id| natural(id));
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

/// The highest, the lowest, the second highest, and so on: never neighbours as long as that can be had.
fn from_both_ends<T>(items: Vec<T>) -> Vec<T> {
    let mut rest = std::collections::VecDeque::from(items);
    let mut chosen = Vec::with_capacity(rest.len());
    while let Some(item) = if chosen.len() % 2 == 0 { rest.pop_back() } else { rest.pop_front() } {
        chosen.push(item);
    }
    chosen
}

/// Sorts `widget10` after `widget9`: the part before the closing digits, then their value.
fn natural(id: &str) -> (String, u64) {
    let name = id.trim_end_matches(|digit: char| digit.is_ascii_digit());
    (name.to_owned(), id[name.len()..].parse().unwrap_or(0))
}
