//! How every program of the suite starts, stops, logs and serves, what it sees of the operating system ([`System`]), and the one
//! way in which all of them list and watch objects.
//!
//! Used by the extender, the device plugin and `fake-neuron node`, and by testkit's clusters, whose parts stand on a [`System`]
//! as well. [`watch()`] differs from kube's watcher in what happens
//! when something is wrong: no list, watch or connection can be silent for more than about a minute, a page of a list has
//! at most 32 MiB, objects may come as JSON or as protobuf, and [`Disconnected`] tells the caller that it no longer knows
//! what the API server has.
//!
//! ```no_run
//! use futures::StreamExt as _;
//! use k8s_openapi::api::core::v1::Node;
//! use kube::runtime::watcher::Event;
//! use runtime::{Collection, Json};
//!
//! # async fn run() -> anyhow::Result<()> {
//! runtime::log(runtime::LogFormat::Text);
//! let shutdown = runtime::until_signal()?;
//! let client = runtime::client(None).await?;
//! let system = runtime::System::real();
//! let mut events = runtime::watch::<Node, _>(&system, client, Collection::of::<Node>(), Json)
//!     .take_until(shutdown.cancelled_owned())
//!     .boxed();
//! while let Some(event) = events.next().await {
//!     match event {
//!         Ok(Event::InitApply(node) | Event::Apply(node)) => println!("{:?}", node.metadata.name),
//!         Ok(_) => {}
//!         // Logged already; a list follows.
//!         Err(disconnected) => println!("{disconnected}"),
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod api_server;
mod branches;
mod calls;
mod deadlines;
mod encoding;
mod event_name;
mod logs;
pub mod metrics;
#[cfg(planted)]
mod planted;
mod program;
mod serve;
mod signals;
pub mod system;
mod watch;

pub use api_server::client;
pub use branches::{BRANCHES, BranchCounts, count_branches, counted_branches, reached};
pub use calls::{CallError, read, write};
pub use deadlines::end_after;
pub use encoding::protobuf::{self, Protobuf};
pub use encoding::{Encoding, Items, Json, Page, Unreadable, WatchEvent};
pub use event_name::event_name;
pub use logs::{LogFormat, LogFormatError, log, log_with_plain_lines};
#[cfg(planted)]
pub use planted::{is_planted, plant};
pub use program::run_program;
pub use serve::{LastCall, Prepare, Prepared, Protocol, Server};
pub use signals::until_signal;
pub use system::System;
pub use watch::gap::Gap;
pub use watch::{Collection, Disconnected, watch, watch_with_gap};
