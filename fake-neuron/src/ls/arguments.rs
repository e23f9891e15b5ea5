//! The flags of `neuron-ls`. Its own library answers an unknown one on standard output, so clap cannot read them. Called by
//! [`crate::ls`].

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

/// What `--help` prints; no capture of the real one is known, nor its exit code, which is taken to be 0.
pub(super) const HELP: &str = "\
Usage:
  neuron-ls [OPTIONS]

Application Options:
  -w, --wide            Displays the table in a wider format
  -a, --show-all-procs  Show all processes using the Neuron Devices
  -t, --topology        Display topology information about the Neuron Devices
  -j, --json-output     Output in JSON format
      --root=DIR        Folder that /dev, /sys and /opt stand in (fake-neuron only)

Help Options:
  -h, --help            Show this help message
";

/// What was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Help,
    List(Arguments),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) wide: bool,
    pub(super) all: bool,
    pub(super) topology: bool,
    pub(super) json: bool,
    /// Only ours: the real program knows no other root than `/`.
    pub(super) root: Option<PathBuf>,
}

/// The text of a refusal.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    /// A flag without its dashes. The text is as captured.
    UnknownFlag(String),
    NoFolder,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::UnknownFlag(flag) => write!(formatter, "unknown flag `{flag}'"),
            Refused::NoFolder => formatter.write_str("expected argument for flag `--root'"),
        }
    }
}

/// Reads the arguments; those without a dash are left unread, as the real program's library does.
pub(super) fn parse(arguments: &[OsString]) -> Result<Asked, Refused> {
    let mut asked = Arguments::default();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        let text = argument.to_string_lossy();
        if text == "--" {
            break;
        }
        if let Some(root) = text.strip_prefix("--root=") {
            asked.root = Some(root.into());
        } else if text == "--root" {
            asked.root = Some(rest.next().ok_or(Refused::NoFolder)?.into());
        } else if let Some(long) = text.strip_prefix("--") {
            match long {
                "wide" => asked.wide = true,
                "show-all-procs" => asked.all = true,
                "topology" => asked.topology = true,
                "json-output" => asked.json = true,
                "help" => return Ok(Asked::Help),
                unknown => return Err(Refused::UnknownFlag(unknown.to_owned())),
            }
        } else if let Some(short) = text.strip_prefix('-') {
            for flag in short.chars() {
                match flag {
                    'w' => asked.wide = true,
                    'a' => asked.all = true,
                    't' => asked.topology = true,
                    'j' => asked.json = true,
                    'h' => return Ok(Asked::Help),
                    unknown => return Err(Refused::UnknownFlag(unknown.to_string())),
                }
            }
        }
    }
    Ok(Asked::List(asked))
}
