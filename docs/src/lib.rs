//! Tests of the documentation. The tests of this crate are all of it: `links` (every link and anchor of the Markdown files
//! leads somewhere) and `recipes` (every command of `contribute.md` works as it stands).
//!
//! ```sh
//! cargo test -p docs
//! ```
