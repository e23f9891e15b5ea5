//! The configuration file: flags by their long names, as YAML or JSON. Its entries become words of the command line before the real
//! ones, so that whatever holds for a flag holds for them. Read where the settings are.

use std::collections::BTreeMap;
use std::error::Error as _;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, Command};

/// Flags that mean nothing in the file.
const NOT_IN_THE_FILE: [&str; 3] = ["config", "help", "version"];

/// A configuration file.
pub(super) struct ConfigFile {
    path: PathBuf,
    /// The values that neither the command line nor the environment replaces, as written, by flag.
    entries: BTreeMap<String, String>,
}

impl ConfigFile {
    /// The file that these words or the environment name, if they do.
    ///
    /// # Errors
    /// It cannot be read, or has what is no flag.
    pub(super) fn of(command: &mut Command, words: &[OsString]) -> Result<Option<Self>, clap::Error> {
        // What is wrong in the words is told once they are read for good.
        let given = command.clone().ignore_errors(true).try_get_matches_from(words);
        let Ok(given) = given else { return Ok(None) };
        let Some(path) = given.get_one::<PathBuf>("config_file") else { return Ok(None) };
        let refused = |command: &mut Command, kind, reason: &str| {
            command.error(kind, format!("the configuration file {} {reason}", path.display()))
        };
        let written = read(path).map_err(|reason| refused(command, ErrorKind::Io, &reason))?;
        let mut entries = BTreeMap::new();
        for (key, value) in written {
            let Some(argument) = possible(command).find(|argument| argument.get_long() == Some(&key)) else {
                let keys: Vec<_> = possible(command).filter_map(Arg::get_long).collect();
                let reason = format!("has {key:?}, which is no flag; possible are {}", keys.join(", "));
                return Err(refused(command, ErrorKind::UnknownArgument, &reason));
            };
            let source = given.value_source(argument.get_id().as_str());
            if !matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable)) {
                entries.insert(key, value);
            }
        }
        Ok(Some(Self { path: path.clone(), entries }))
    }

    /// The words with the file's before them, behind the program's name.
    pub(super) fn before(&self, words: Vec<OsString>) -> Vec<OsString> {
        let mut words = words.into_iter();
        let ours = self.entries.iter().map(|(flag, value)| format!("--{flag}={value}").into());
        words.next().into_iter().chain(ours).chain(words).collect()
    }

    /// Whether the flag's value is the file's.
    pub(super) fn gives(&self, flag: &str) -> bool {
        self.entries.contains_key(flag)
    }

    /// The error with the file and the key in it, where it is about a value of the file.
    pub(super) fn named_in(&self, error: clap::Error, command: &mut Command) -> clap::Error {
        let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
        // It is shown as in the help: `--policy <POLICY>`, `--leader-elect[=<true|false>]`.
        let key = argument.trim_start_matches("--").split([' ', '[']).next().unwrap_or_default();
        let Some(value) = self.entries.get(key) else { return error };
        let reason = match (error.source(), error.get(ContextKind::ValidValue)) {
            (Some(source), _) => source.to_string(),
            (None, Some(ContextValue::Strings(possible))) => format!("possible are {}", possible.join(", ")),
            _ => return error,
        };
        let path = self.path.display();
        command.error(error.kind(), format!("{key}: {value} in the configuration file {path}: {reason}"))
    }
}

/// The flags that can stand in the file.
fn possible(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_possible =
        |argument: &&Arg| argument.get_long().is_some_and(|flag| !NOT_IN_THE_FILE.contains(&flag));
    command.get_arguments().filter(is_possible)
}

/// # Errors
/// Why not.
#[allow(
    clippy::disallowed_methods,
    reason = "it is read before the program has its System, as the command line is"
)]
fn read(path: &Path) -> Result<BTreeMap<String, String>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    // YAML 1.2 has JSON in it.
    serde_saphyr::from_str(&text)
        .map_err(|error| format!("is no YAML or JSON object of flags and their values: {error}"))
}
