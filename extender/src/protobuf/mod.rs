//! Pods, nodes and Bindings in the API server's protobuf, and what is kept of them. Used by the watches and by bind.
//!
//! The messages are written by hand. Those of the crate `k8s-pb` take four times as long to read, and one termination
//! message that is not UTF-8, which any container can write, makes a whole list of pods unreadable with them.

pub(crate) mod messages;
mod observe;
