//! The conversation with kubelet: registering, answering its calls on a socket for each resource, and asking it who has
//! what.

mod attempt;
pub mod checkpoint;
mod connection;
pub mod folder;
mod loss;
pub mod podresources;
pub mod pods_api;
pub mod registration;
mod remains;
pub mod service;
pub mod serving_lock;
pub mod socket;
pub mod together;
