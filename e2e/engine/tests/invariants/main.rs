//! Every invariant can fail: tables of outcomes that violate exactly one of them, and of outcomes that violate none.

#![allow(clippy::unwrap_used, reason = "a failing helper of a test should say where")]

mod candidate_sets;
mod device_nodes;
mod exclusivity;
mod exclusivity_over_time;
mod no_lost_device;
mod no_lost_pod;
mod nothing_wrong;
mod record;
mod requested_counts;
mod world;
