//! `neuron-ls` as tools up to 2.33 print it (docs/reference/neuron.md §4.4): [`run`] is the program. Called by the command line,
//! as `neuron-ls` and as `fake-neuron ls`.
//!
//! Each form is written after captures and the samples of the Neuron SDK's docs (`tools/neuron-sys-tools/neuron-ls.rst`); what
//! none of them shows is said where it is chosen.

mod arguments;
mod json;
mod processes;
mod table;
mod topology;

use std::ffi::OsString;
use std::io::{self, Write};
use std::time::SystemTime;

use crate::go;
use crate::host::{Host, HostError, find_root};
use arguments::{Arguments, Asked};

/// Runs the program with the arguments after its name. What it found goes to `out`, in one write; what went wrong to `err`.
/// Returns the exit code: 0, or 1 where there is no device or a flag is not known.
///
/// # Errors
/// `out` or `err` cannot be written.
pub fn run(arguments: &[OsString], out: &mut dyn Write, err: &mut dyn Write) -> io::Result<u8> {
    let asked = match arguments::parse(arguments) {
        Ok(Asked::List(asked)) => asked,
        Ok(Asked::Help) => return write_out(out, arguments::HELP, 0),
        Err(refused) => return write_out(out, &format!("{refused}\n"), 1),
    };
    let root = find_root(asked.root.clone(), |name| std::env::var_os(name));
    match Host::read(&root, |name| std::env::var(name).ok()) {
        Ok(host) => write_out(out, &text(&host, &asked, arguments), 0),
        Err(error) => {
            err.write_all(failure(&error).as_bytes())?;
            Ok(1)
        }
    }
}

fn write_out(out: &mut dyn Write, text: &str, code: u8) -> io::Result<u8> {
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(code)
}

fn text(host: &Host, asked: &Arguments, arguments: &[OsString]) -> String {
    let processes = processes::of(host, asked, arguments);
    if asked.json {
        return json::text(host, &processes);
    }
    let mut text = header(host);
    text.push_str(&table::text(host, &processes));
    if asked.topology {
        text.push_str(&topology::text(host));
    }
    text
}

/// The lines above the table; LNC only where there is one.
fn header(host: &Host) -> String {
    let mut lines = format!(
        "instance-type: {}\ninstance-id: {}\n",
        host.identity.instance_type, host.identity.instance_id
    );
    if host.has_logical_cores() {
        lines.push_str(&format!("logical-neuroncore-config: {}\n", host.lnc));
    }
    lines
}

/// The line of a host without devices, as captured. Other failures have not been: they are told in the same form.
fn failure(error: &HostError) -> String {
    go::fatal(SystemTime::now(), "Failed to load MLA system information", &error.as_the_tools_say())
}
