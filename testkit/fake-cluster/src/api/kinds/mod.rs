//! What differs between the kinds of objects: their addresses and types, and the rules of pods, events and nodes' names.

pub(crate) mod container_resources;
pub(crate) mod decode;
pub(crate) mod event;
pub(crate) mod node_name;
pub(crate) mod pod;
pub(crate) mod table;
