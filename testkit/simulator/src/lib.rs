//! Runs whole programs in one thread whose time jumps, with faults and everything random from a seed: the same seed is the same
//! run, down to the order in which tasks are polled. Knows nothing of Kubernetes.
//!
//! A program is anything that asks for what it needs by a [`runtime::System`]. Here it gets one of a [`Process`] on a [`Host`]
//! of a [`Simulation`]: its tasks are polled by the [`executor`], its files and sockets are in memory, its connections go over
//! [`network`] links that can be slow or cut. A process can be killed before any poll of its tasks: nothing of it runs again.
//!
//! Rooms, each knowing only those above it:
//!
//! | room | what it owns |
//! |---|---|
//! | [`random`], `time`, [`trace`], `life`, `parts`, `ready` | streams of numbers, the clock, events, a process' life, counts by part, tasks that were woken |
//! | [`files`] | a host's files and Unix sockets, and a process' way to them |
//! | [`network`] | links, connections, and a process' sockets |
//! | `machine`, `process`, `host` | a host without its processes; what a program runs as; both |
//! | [`executor`], `watchdog` | which task is polled when, and whether a poll returns |
//! | `logs`, `panics` | what tasks say while they are polled |
//! | `simulation` | all of it, on a thread of its own |
//!
//! ```
//! use std::time::Duration;
//! use runtime::system::Address;
//! use simulator::{Options, run};
//! use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
//!
//! let finished = run(Options::new(7), |simulation| async move {
//!     let (server, client) = (simulation.host("server"), simulation.host("client"));
//!     let (address, system) = (Address::Tcp((server.ip(), 80).into()), server.process("hello").system());
//!     let mut listener = system.listen(&address).unwrap();
//!     system.spawn(async move {
//!         let mut connection = listener.accept().await.unwrap();
//!         tokio::time::sleep(Duration::from_secs(3600)).await;
//!         connection.write_all(b"hello").await.unwrap();
//!     });
//!     let mut text = String::new();
//!     let mut connection = client.process("asker").system().connect(&address).await.unwrap();
//!     connection.read_to_string(&mut text).await.unwrap();
//!     (text, simulation.elapsed() >= Duration::from_secs(3600))
//! });
//! assert_eq!(finished.result, Some(("hello".to_owned(), true)));
//! ```

pub mod executor;
pub mod files;
mod host;
mod life;
mod logs;
mod machine;
pub mod network;
mod panics;
mod parts;
mod process;
pub mod random;
mod ready;
mod simulation;
mod time;
pub mod trace;
mod watchdog;

pub use self::host::Host;
pub use self::panics::Panic;
pub use self::parts::Activity;
pub use self::process::Process;
pub use self::simulation::{Finished, Options, POLL_LIMIT, Simulation, run};
pub use self::watchdog::{How, Stuck};
