//! The scheduler seen from outside: an API server, real HTTP extenders, and what a user reads.

mod binding;
#[cfg(test)] // clippy lets test code unwrap where it can see that it is test code
mod extenders;
mod retries;
#[cfg(test)]
mod support;
mod texts;
