//! The command `neuron-e2e`: runs the scenarios of `e2e/scenarios/` on the embedded cluster and on kind, and shows what came of
//! them. What a scenario is and what must hold of it is [`neuron_e2e_engine`]'s.

pub mod command;
pub mod conformance;
pub mod kind;
mod kind_arguments;
pub mod playground;
pub mod report;
pub mod verify;
pub mod view;
