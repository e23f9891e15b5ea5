//! The flags of `neuron-monitor`, read as `neuron-ls` reads its own. Called by [`crate::monitor`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::load::{LoadError, Profile};

/// What `--help` prints; no capture of the real one is known.
pub(super) const HELP: &str = "\
Usage:
  neuron-monitor [OPTIONS]

Application Options:
      --verbose=N         0 to 4, how much is said on standard error (default: 0)
  -c, --config-file=FILE  Which metrics to collect, as JSON
      --load=PROFILE      What the devices do: idle, training, leak or spikes (fake-neuron only)
      --root=DIR          Folder that /dev, /sys and /opt stand in (fake-neuron only)

Help Options:
  -h, --help              Show this help message
";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    Help,
    Monitor(Arguments),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Arguments {
    pub(super) config: Option<PathBuf>,
    /// Only ours.
    pub(super) load: Option<Profile>,
    /// Only ours.
    pub(super) root: Option<PathBuf>,
}

/// The text of a refusal; that of an unknown flag is as neuron-ls was captured.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum Refused {
    #[error("unknown flag `{0}'")]
    UnknownFlag(String),
    #[error("expected argument for flag `{0}'")]
    NoValue(&'static str),
    #[error("invalid argument for flag `--verbose' (expected a number from 0 to 4)")]
    Verbosity,
    #[error(transparent)]
    Load(#[from] LoadError),
}

pub(super) fn parse(arguments: &[OsString]) -> Result<Asked, Refused> {
    let mut asked = Arguments::default();
    let mut rest = arguments.iter().map(OsString::as_os_str);
    while let Some(argument) = rest.next() {
        let (flag, joined) = split(argument);
        let mut value = |name| joined.or_else(|| rest.next()).ok_or(Refused::NoValue(name));
        match flag {
            b"-h" | b"--help" => return Ok(Asked::Help),
            b"-c" | b"--config-file" => asked.config = Some(value("-c, --config-file")?.into()),
            b"--root" => asked.root = Some(value("--root")?.into()),
            b"--load" => asked.load = Some(value("--load")?.to_string_lossy().parse()?),
            // Nothing is ever said: there is no real driver to tell about.
            b"--verbose" => {
                let level = value("--verbose")?.to_str().and_then(|level| level.parse().ok());
                level.filter(|level: &u8| *level <= 4).ok_or(Refused::Verbosity)?;
            }
            _ => {
                let name = argument.to_string_lossy();
                let bare = name.trim_start_matches('-');
                if bare.len() < name.len() {
                    return Err(Refused::UnknownFlag(bare.to_owned()));
                }
            }
        }
    }
    Ok(Asked::Monitor(asked))
}

/// `--flag=value` and `-cvalue` in two.
fn split(argument: &OsStr) -> (&[u8], Option<&OsStr>) {
    let bytes = argument.as_bytes();
    match bytes.iter().position(|byte| *byte == b'=') {
        Some(at) if bytes.starts_with(b"--") => (&bytes[..at], Some(OsStr::from_bytes(&bytes[at + 1..]))),
        _ if bytes.starts_with(b"-c") && bytes.len() > 2 => {
            (&bytes[..2], Some(OsStr::from_bytes(&bytes[2..])))
        }
        _ => (bytes, None),
    }
}
