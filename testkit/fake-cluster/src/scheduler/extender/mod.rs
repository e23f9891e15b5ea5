//! The calls to extenders: what they are sent, over HTTP or in this process, and what their answers mean.

pub(crate) mod client;
mod connector;
pub(crate) mod error;
pub(crate) mod in_process;
mod transport;
pub(crate) mod wire;
