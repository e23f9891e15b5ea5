//! The device plugin as kubelet, pods and the API server meet it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing test should say where")]
#![allow(clippy::disallowed_methods, reason = "what the plugin stands on is this machine")]

mod absences;
mod admission;
mod answers_in_time;
mod bad_machines;
mod captured;
mod correction;
mod cross_resource;
mod daemons;
mod driver_layouts;
mod ending;
mod exports;
mod handover;
mod health;
mod injection;
mod lease;
mod ledger;
mod ledger_node;
mod legacy;
mod lnc_in_force;
mod logs;
mod manual_kubelet;
mod metrics;
mod node;
mod panics;
mod platform;
mod pod_resources;
mod preference;
mod process;
mod registration;
mod renumbering;
mod report_time;
mod settings;
mod sizes;
mod swapped;
mod system;
mod takeover;
mod unread_checkpoint;
mod unread_pods;
