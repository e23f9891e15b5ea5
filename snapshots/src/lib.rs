//! The suite's insta snapshots: what users see.
