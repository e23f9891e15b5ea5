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
    /// A flag that takes no value and was given one, by both its names. Not captured: it is what the library says from which the
    /// other text is.
    Value(&'static str),
    NoFolder,
}

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::UnknownFlag(flag) => write!(formatter, "unknown flag `{flag}'"),
            Refused::Value(flag) => write!(formatter, "bool flag `{flag}' cannot have an argument"),
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
            let (name, has_value) = long.split_once('=').map_or((long, false), |(name, _)| (name, true));
            let flag = FLAGS.iter().find(|flag| flag.long == name);
            if !asked.set(flag.ok_or_else(|| Refused::UnknownFlag(name.to_owned()))?, has_value)? {
                return Ok(Asked::Help);
            }
        } else if let Some(short) = text.strip_prefix('-') {
            // Only what follows the first letter can be a value.
            let has_value = short.chars().nth(1) == Some('=');
            for letter in short.chars().take(if has_value { 1 } else { usize::MAX }) {
                let flag = FLAGS.iter().find(|flag| flag.short == letter);
                if !asked.set(flag.ok_or_else(|| Refused::UnknownFlag(letter.to_string()))?, has_value)? {
                    return Ok(Asked::Help);
                }
            }
        }
    }
    Ok(Asked::List(asked))
}

/// A flag that takes no value.
struct Flag {
    short: char,
    long: &'static str,
    /// As the real program's library writes both.
    both: &'static str,
}

const FLAGS: [Flag; 5] = [
    Flag { short: 'w', long: "wide", both: "-w, --wide" },
    Flag { short: 'a', long: "show-all-procs", both: "-a, --show-all-procs" },
    Flag { short: 't', long: "topology", both: "-t, --topology" },
    Flag { short: 'j', long: "json-output", both: "-j, --json-output" },
    Flag { short: 'h', long: "help", both: "-h, --help" },
];

impl Arguments {
    /// Notes that the flag was given. Whether it was another one than `--help`.
    fn set(&mut self, flag: &Flag, has_value: bool) -> Result<bool, Refused> {
        if has_value {
            return Err(Refused::Value(flag.both));
        }
        match flag.short {
            'w' => self.wide = true,
            'a' => self.all = true,
            't' => self.topology = true,
            'j' => self.json = true,
            _ => return Ok(false),
        }
        Ok(true)
    }
}
