//! `fake-neuron record`: the command line around [`fake_neuron::record`]. Called by `cli`.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use fake_neuron::record::{Fixture, Limits, Row, Skipped, capture};
use serde::Serialize;

use super::Format;
use super::output::columns;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The host's root folder, read only.
    #[arg(long, value_name = "DIR", default_value = "/")]
    root: PathBuf,
    /// File to write, or the folder for it; a folder's file is named after type and driver.
    #[arg(long, value_name = "DIR|FILE.json", default_value = ".")]
    output: PathBuf,
    /// Keep serial numbers and the instance id; without it they are replaced by made-up ones.
    #[arg(long)]
    keep_identity: bool,
    /// Write without asking.
    #[arg(long)]
    yes: bool,
    /// How to print what would be written.
    #[arg(short = 'o', long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

/// What would be written, as `-o json` prints it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Preview<'a> {
    file: &'a Path,
    instance_type: &'a str,
    driver_version: &'a str,
    identity_kept: bool,
    files: Vec<Row>,
    skipped: &'a [Skipped],
}

/// Captures, shows, and writes if it is told to.
///
/// # Errors
/// No Neuron device there, a file that cannot be written.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<String> {
    let fixture = capture(&arguments.root, arguments.keep_identity, &Limits::default())?;
    let file = file(&arguments.output, &fixture);
    let shown = match arguments.format {
        Format::Table => table(&fixture, &file),
        Format::Json => {
            let preview = Preview {
                file: &file,
                instance_type: &fixture.instance_type,
                driver_version: &fixture.driver_version,
                identity_kept: fixture.identity_kept,
                files: fixture.summary(),
                skipped: &fixture.skipped,
            };
            serde_json::to_string_pretty(&preview).context("cannot print the capture")? + "\n"
        }
    };
    super::print(&shown)?;
    let mut errors = io::stderr();
    if !arguments.yes && !confirmed(&file)? {
        let _ = writeln!(errors, "fake-neuron: nothing was written; --yes writes {}", file.display());
        return Ok(String::new());
    }
    fixture.write(&file)?;
    let _ = writeln!(errors, "fake-neuron: {} is written; replay it with --from", file.display());
    Ok(String::new())
}

fn file(to: &Path, fixture: &Fixture) -> PathBuf {
    if to.extension().is_some_and(|extension| extension == "json") && !to.is_dir() {
        return to.to_owned();
    }
    // A name from the host: only what is harmless in a file's name.
    let harmless = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '-');
    let name = format!("{}-{}", fixture.instance_type, fixture.driver_version);
    to.join(name.chars().filter(|character| harmless(*character)).collect::<String>() + ".json")
}

/// Asks on a terminal; elsewhere nobody can answer.
fn confirmed(file: &Path) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(false);
    }
    write!(io::stderr(), "write this to {}? [y/N] ", file.display()).context("cannot ask")?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).context("cannot read the answer")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn table(fixture: &Fixture, file: &Path) -> String {
    let styled = io::stdout().is_terminal();
    let rows = fixture.summary().into_iter().map(|row| {
        let example = if row.made_up { format!("{} (made up)", row.example) } else { row.example };
        vec![row.path, row.count.to_string(), row.bytes.to_string(), example]
    });
    let mut text = columns(&["PATH", "FILES", "BYTES", "EXAMPLE"], rows, styled);
    if !fixture.skipped.is_empty() {
        let rows = fixture.skipped.iter().map(|skipped| vec![skipped.path.clone(), skipped.why.clone()]);
        text.push('\n');
        text.push_str(&columns(&["NOT CAPTURED", "WHY"], rows, styled));
    }
    let driver = match fixture.driver_version.as_str() {
        "" => "a driver that does not say its version",
        version => &format!("driver {version}"),
    };
    text + &format!("\n{} with {driver}, for {}\n", fixture.instance_type, file.display())
}
