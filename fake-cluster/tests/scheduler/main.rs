//! The scheduler seen from outside: an API server, real HTTP extenders, and what a user reads.

mod binding;
mod extenders;
mod retries;
mod support;
mod texts;
