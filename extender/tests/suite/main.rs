//! The extender as kube-scheduler and users see it: over HTTP, beside the in-memory API server.

#![allow(
    clippy::unwrap_used,
    reason = "clippy knows tests by their attribute; their helpers fail in the same way"
)]
#![allow(clippy::disallowed_methods, reason = "tests run on the machine as it is")]

mod bind;
mod claim;
mod classic_log;
mod concurrent;
mod daemons;
mod deploy;
mod device_model;
mod events;
mod faults;
mod filter;
mod fuzz;
mod garbage;
mod holders;
mod hostile;
mod http2;
mod http_client;
mod leases;
mod load;
mod logs;
mod machine;
mod metrics;
mod names;
mod objects;
mod order;
mod preempt;
mod prioritize;
mod program;
mod replicas;
mod restarts;
mod rights;
mod settings;
mod silence;
mod simulated;
mod slow_pages;
mod start;
mod strangers;
mod support;
mod tls;
mod unclear;
mod wire;
mod wire_forms;
