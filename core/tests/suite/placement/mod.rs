//! Placement: the worked examples, the refusals, what init containers hand down, and brute force beside it all.

mod budget;
mod equal_nodes;
mod every_shape;
mod examples;
mod hand_down;
mod init_matrix;
mod oracle;
mod outcomes;
mod placed_records;
mod support;
mod turn;
