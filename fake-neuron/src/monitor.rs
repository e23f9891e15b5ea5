//! `neuron-monitor` as the Neuron SDK's docs describe it (`tools/neuron-sys-tools/neuron-monitor-user-guide.rst`;
//! docs/reference/neuron.md §4.5): [`run`] is the program. Called by the command line, as `neuron-monitor` and as
//! `fake-neuron monitor`.
//!
//! A record is one line of JSON: the first at once, then one whenever a group of metrics is due. What a workload does comes from
//! a load profile ([`crate::load`]), errors of devices from sysfs, the host's CPUs and memory from its `/proc`.

mod arguments;
mod collect;
mod config;
mod proc;
mod record;
mod runtimes;
mod system;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::SystemTime;

use crate::go;
use crate::host::find_root;
use arguments::Asked;
use collect::Collector;
use config::Config;

/// Runs the program with the arguments after its name until SIGTERM or SIGINT. Records go to `out`, each in one write; what went
/// wrong to `err`. Returns the exit code: 0 when ended, 1 where a flag or the config file cannot be used.
///
/// # Errors
/// `out` or `err` cannot be written, as when nobody reads any more.
pub fn run(arguments: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let asked = match arguments::parse(arguments) {
        Ok(Asked::Monitor(asked)) => asked,
        Ok(Asked::Help) => {
            out.write_all(arguments::HELP.as_bytes())?;
            return Ok(0);
        }
        Err(refused) => {
            out.write_all(format!("{refused}\n").as_bytes())?;
            return Ok(1);
        }
    };
    let config = match asked.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read) {
        Ok(config) => config,
        Err(error) => {
            let line = go::fatal(SystemTime::now(), "Failed to read the configuration", &error.to_string());
            err.write_all(line.as_bytes())?;
            return Ok(1);
        }
    };
    for unknown in &config.unknown {
        let message = format!("metric group {unknown:?} is not known and left out");
        err.write_all(go::warning(SystemTime::now(), &message).as_bytes())?;
    }
    let root = find_root(asked.root, |name| std::env::var_os(name));
    let collector = Collector::new(root, config, asked.load);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(print(collector, out))?;
    Ok(0)
}

async fn print(mut collector: Collector, out: &mut dyn Write) -> io::Result<()> {
    let ended = runtime::until_signal().map_err(io::Error::other)?;
    loop {
        let record = serde_json::to_string(&collector.record())?;
        out.write_all(format!("{}\n", go::escape_html(&record)).as_bytes())?;
        out.flush()?;
        tokio::select! {
            () = ended.cancelled() => return Ok(()),
            () = tokio::time::sleep_until(collector.next().into()) => {}
        }
    }
}
