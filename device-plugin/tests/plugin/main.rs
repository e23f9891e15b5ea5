//! The device plugin as kubelet, pods and the API server meet it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]

mod admission;
mod bad_machines;
mod captured;
mod correction;
mod exports;
mod ledger;
mod logs;
mod manual_kubelet;
mod node;
mod process;
mod registration;
mod takeover;
