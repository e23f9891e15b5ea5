//! The suite's insta snapshots: what users see. The tests of this crate are all of it: `outcomes` (every scenario's
//! document, the events and the documented examples in them), `command_line` (tables and drawings) and `refusals`.
//! Tables of one crate alone stay with that crate: `core/tests/suite/topology/snapshots`, `fake-neuron/tests/snapshots`.
//!
//! ```sh
//! cargo test -p snapshots
//! ```
