//! What a pod asks for and what is recorded on it.

pub mod bounded;
pub mod claim;
pub mod device_model;
pub mod pod;
pub mod quantity;
pub mod record;
pub mod request;
