//! Sees the truth of every part, at every event, and says what must not be. Nothing of it depends on what the programs say of
//! themselves.

mod mirror;
mod truth;
mod violation;

pub use self::mirror::{Key, Mirror};
pub use self::truth::{
    CHECKPOINT_READS, CHECKPOINT_WRITES, ContainerTruth, PodTruth, Truth, UNDONE_WRITES, UNSEEN,
};
pub(crate) use self::truth::{PREFERENCES, why_it_waits};
pub(crate) use self::violation::without_numbers;
pub use self::violation::{Known, Seen, Violation, Violations};
