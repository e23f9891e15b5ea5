//! Parts of hardware, as the observer and a suite count them.

use std::collections::BTreeSet;

/// Parts of hardware that only one container may have at a time, by numbers of the suite's own, such as cores.
pub type Units = BTreeSet<u32>;
