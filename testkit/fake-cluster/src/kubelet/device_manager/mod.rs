//! The device manager (kubelet's `pkg/kubelet/cm/devicemanager`): plugins register and list their devices, admission
//! allocates ids to containers, and the podresources socket shows them.
//!
//! `choose_ids` decides which ids a container gets, `allocate` asks the plugin for them, `assignments` keeps who has what,
//! `health` how it is.

pub(crate) mod allocate;
mod allocate_error;
pub(crate) mod assignments;
pub(crate) mod checkpoint;
mod choose_ids;
pub(crate) mod devices;
mod endpoint;
pub(crate) mod hand_down;
pub(crate) mod health;
pub(crate) mod plugins;
pub(crate) mod podresources;
pub(crate) mod registration;
mod rpc_error;
