//! The shipped images as Docker runs them. The tests of this crate are all of it: `tests/images`, for images that
//! `cargo xtask images` made.
