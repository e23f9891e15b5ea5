//! The domain rules through their public API, one module for each module of the crate.

#![allow(clippy::unwrap_used, reason = "a failing test should say where, in its helpers too")]

mod catalog;
mod claim;
mod driver;
mod holders;
mod naive;
mod occupancy;
mod placement;
mod record;
mod request;
mod topology;

/// Property tests write no file of failing cases: a failure that matters becomes an example.
fn config() -> proptest::prelude::ProptestConfig {
    proptest::prelude::ProptestConfig { cases: 1000, failure_persistence: None, ..Default::default() }
}
