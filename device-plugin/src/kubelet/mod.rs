//! The conversation with kubelet: registering, answering its calls on a socket for each resource, and asking it who has
//! what.

pub mod podresources;
pub mod registration;
pub mod service;
pub mod serving_lock;
pub mod socket;
mod unique;
