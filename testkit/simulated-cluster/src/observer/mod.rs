//! Sees the truth of every part, at every event, and says what must not be. Nothing of it depends on what the programs say of
//! themselves.

mod mirror;
mod truth;
mod violation;

pub use self::mirror::{Key, Mirror};
pub(crate) use self::truth::{CHECKPOINT_WRITES, PREFERENCES, why_it_waits};
pub use self::truth::{ContainerTruth, PodTruth, Truth, UNSEEN};
pub(crate) use self::violation::without_numbers;
pub use self::violation::{Known, Seen, Violation, Violations};
