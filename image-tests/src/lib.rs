//! Tests of the shipped images as Docker runs them. They are all of this crate: `tests/images`, for the images that
//! `cargo xtask images` makes.
//!
//! ```sh
//! cargo xtask images && cargo test -p image-tests
//! ```
