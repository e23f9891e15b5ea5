//! The program `neuron-workload`: prints what its container got, then runs until SIGTERM or for as long as asked.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use neuron_workload::{Workload, container};
use tokio::signal::unix::{SignalKind, signal};

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let workload = Workload::parse();
    match run(&workload).await {
        Ok(()) => ExitCode::from(workload.exit_code),
        Err(error) => {
            let _ = writeln!(io::stderr(), "neuron-workload: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends after the time asked for; at SIGTERM or Ctrl-C too, then with the same exit code.
async fn run(workload: &Workload) -> io::Result<()> {
    // Before the report is printed: whoever has read it may send the signal at once, and process 1, which this is in its
    // container, is not ended by a signal that it does not wait for.
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut report = container::report()?;
    // Both are held until the end.
    let _held = container::hold(&report);
    let _reserved = workload.reserve.as_ref().and_then(|cores| container::reserve(&mut report, cores));
    let line = serde_json::to_string(&report)?;
    writeln!(io::stdout(), "{line}")?;
    let asked = async {
        match workload.ends_after {
            Some(time) => tokio::time::sleep(time).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = asked => {}
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
