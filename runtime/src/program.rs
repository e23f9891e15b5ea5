//! The life of a program's process: one thread, its end, its exit code. Called by every `main`.

use std::process::ExitCode;

use tokio::runtime::Builder;

/// Runs a program to its end on this thread. An error is logged, with what caused it.
///
/// One thread: nearly all is waiting, and to wake another thread costs more than most of what it would do. Threads of files
/// that hang are left behind.
pub fn run_program(name: &str, program: impl Future<Output = anyhow::Result<()>>) -> ExitCode {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::error!(reason = %error, "the {name} cannot start");
            return ExitCode::FAILURE;
        }
    };
    let ended = runtime.block_on(program);
    runtime.shutdown_background();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(reason = format!("{error:#}"), "the {name} failed");
            ExitCode::FAILURE
        }
    }
}
