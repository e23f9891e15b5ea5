//! What answering one question about one node may cost. A pod's author chooses its containers, and what many of them ask for must not
//! hold up other pods. Shared by all searches of the question.

use std::cell::Cell;

/// Moves that the searches of one question try at most, some 20 ms of them. Each state that a search remembers has cost a move, so that
/// all of them stay below 64 MiB. No pod of up to four containers was seen to need so many under policy `documented`
/// (`tests/suite/placement/budget.rs`).
pub(super) const MOVES: u32 = 200_000;

/// Sets that are looked at in the time of one move.
pub(super) const LOOKS_OF_A_MOVE: usize = 64;

/// What the searches about one pod took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SearchCost {
    /// Moves that were tried. One takes some 100 ns.
    pub moves: u32,
    /// Searches that were given up at their limit.
    pub given_up: u32,
}

/// Moves that are left.
#[derive(Debug)]
pub(super) struct Budget {
    moves: u32,
    /// None once a search has been given up.
    left: Cell<Option<u32>>,
}

impl SearchCost {
    /// The budget for the next of several searches: what all of them may take together, and one at most, in moves.
    pub(super) fn next(self, all: u32, one: u32) -> Budget {
        Budget::of(one.min(all.saturating_sub(self.moves)))
    }

    /// A search has ended.
    pub(super) fn add(&mut self, budget: &Budget) {
        self.moves += budget.used();
        self.given_up += u32::from(budget.is_spent());
    }
}

impl Budget {
    /// For one question.
    pub(super) fn of_question() -> Self {
        Self::of(MOVES)
    }

    /// So many moves.
    pub(super) fn of(moves: u32) -> Self {
        Self { moves, left: Cell::new(Some(moves)) }
    }

    /// Takes so many moves; none if there are not enough left, and from then on never again.
    pub(super) fn take(&self, moves: usize) -> Option<()> {
        let left = self.left.get().zip(u32::try_from(moves).ok());
        self.left.set(left.and_then(|(left, moves)| left.checked_sub(moves)));
        self.left.get().map(drop)
    }

    /// How many were taken; all of them where a search has been given up.
    pub(super) fn used(&self) -> u32 {
        self.moves - self.left.get().unwrap_or_default()
    }

    /// Gives the search up where no move is left for it. Whether it did.
    pub(super) fn give_up_if_used_up(&self) -> bool {
        self.left.get().unwrap_or_default() == 0 && self.take(1).is_none()
    }

    /// Whether a search has been given up. What it did not find may be there.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get().is_none()
    }
}
