//! A node without Docker and without root: fake-cluster's kubelet in this process, with its sockets in a temporary folder, and
//! the plugin under test as a process of its own beside it. Made by whoever tests a plugin; a stage of the cases.

mod containers;
mod node;
mod process;
mod registration_socket;
mod setup;
mod stage;

pub use node::EmbeddedNode;
pub use setup::EmbeddedPlugin;
