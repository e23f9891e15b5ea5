//! The command line, the environment and the configuration file put together, and what came of it. Read by `main`.

use std::ffi::OsString;
use std::fmt;

use clap::parser::ValueSource;
use clap::{ArgMatches, Command, CommandFactory as _, FromArgMatches as _};

use super::Arguments;
use super::contradictions::refuse_contradictions;
use super::file::ConfigFile;

/// What the program runs with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The values.
    pub arguments: Arguments,
    /// The same by flag, each with where it comes from.
    pub effective: EffectiveConfiguration,
}

impl Settings {
    /// Reads the words of a command line, the program's name first, the environment, and the configuration file that one of them
    /// names. The command line goes before the environment, the environment before the file, the file before the defaults.
    ///
    /// # Errors
    /// A word, a variable or an entry of the file is not known or has a wrong value, or two contradict each other; also where help or
    /// the version is asked for. The text names which and what to do; [`clap::Error::exit`] ends the program with it.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Self, clap::Error> {
        let words: Vec<OsString> = words.into_iter().collect();
        let mut command = Arguments::command();
        let file = ConfigFile::of(&mut command, &words)?;
        let words = match &file {
            Some(file) => file.before(words),
            None => words,
        };
        let read = command.try_get_matches_from_mut(words);
        let matches = read.map_err(|error| match &file {
            Some(file) => file.named_in(error, &mut command),
            None => error,
        })?;
        let arguments = Arguments::from_arg_matches(&matches).map_err(|error| error.format(&mut command))?;
        refuse_contradictions(&mut command, &arguments, &matches)?;
        let effective = EffectiveConfiguration::of(&command, &matches, file.as_ref());
        Ok(Self { arguments, effective })
    }
}

/// Each flag that has a value, and where the value comes from: `port=80 (PORT), policy=linked (default)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EffectiveConfiguration(Vec<Setting>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Setting {
    /// The long name.
    flag: String,
    value: String,
    source: String,
}

impl EffectiveConfiguration {
    fn of(command: &Command, matches: &ArgMatches, file: Option<&ConfigFile>) -> Self {
        let settings = command.get_arguments().filter_map(|argument| {
            let id = argument.get_id().as_str();
            let (flag, source) = (argument.get_long()?, matches.value_source(id)?);
            let values: Vec<_> = matches.get_raw(id)?.map(|value| value.to_string_lossy()).collect();
            let source = match source {
                ValueSource::CommandLine if file.is_some_and(|file| file.gives(flag)) => "file".to_owned(),
                ValueSource::CommandLine => "command line".to_owned(),
                ValueSource::EnvVariable => argument.get_env()?.to_string_lossy().into_owned(),
                _ => "default".to_owned(),
            };
            Some(Setting { flag: flag.to_owned(), value: values.join(","), source })
        });
        // Help and version are flags, too.
        Self(settings.filter(|setting| !matches!(&*setting.flag, "help" | "version")).collect())
    }
}

impl fmt::Display for EffectiveConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Setting { flag, value, source }) in self.0.iter().enumerate() {
            let separator = if place > 0 { ", " } else { "" };
            write!(f, "{separator}{flag}={value} ({source})")?;
        }
        Ok(())
    }
}
