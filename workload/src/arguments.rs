//! The command line. Parsed by `main`, and by the embedded cluster from a container's arguments.

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Parser;

/// The command line of `neuron-workload`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Parser)]
#[command(
    name = "neuron-workload",
    about = "Prints as JSON which Neuron devices and variables this container got"
)]
pub struct Workload {
    /// End by itself after this long, e.g. `1s` or `200ms`; without it the workload runs until it is stopped.
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub ends_after: Option<Duration>,
    /// The exit code when it ends by itself, 0 to 255.
    #[arg(long = "exit", value_name = "CODE", default_value_t = 0)]
    pub exit_code: u8,
    /// Reserve these cores of its first device and hold them, as Neuron's runtime does before it computes: `1`, or `0-3`. They are
    /// physical and count from the device's first core; `reserved` in the report says what came of it.
    #[arg(long, value_name = "CORES", value_parser = parse_cores)]
    pub reserve: Option<RangeInclusive<u32>>,
}

impl Workload {
    /// Parses the arguments of a container, without the program's name.
    ///
    /// # Errors
    /// An argument that is unknown or malformed, with clap's usage text.
    pub fn from_args<'a>(args: impl IntoIterator<Item = &'a String>) -> Result<Self, clap::Error> {
        Self::try_parse_from(std::iter::once("neuron-workload").chain(args.into_iter().map(String::as_str)))
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a duration; use a number with ms, s or m, e.g. 1s");
    let split = text.find(|digit: char| !digit.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(split);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    match unit {
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        "m" => Ok(Duration::from_secs(number.saturating_mul(60))),
        _ => Err(wrong()),
    }
}

fn parse_cores(text: &str) -> Result<RangeInclusive<u32>, String> {
    let wrong = || format!("{text:?} are no cores; use a number or the first and the last, e.g. 0-3");
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let (first, last) = (number(first)?, number(last)?);
    if first <= last { Ok(first..=last) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_say_when_it_ends() {
        let args = ["--for".to_owned(), "1s".to_owned(), "--exit".to_owned(), "3".to_owned()];
        let workload = Workload::from_args(&args).unwrap();
        let ends_after = Some(Duration::from_secs(1));
        assert_eq!(workload, Workload { ends_after, exit_code: 3, reserve: None });
        let wrong = Workload::from_args(&["--for=soon".to_owned()]).unwrap_err().to_string();
        assert!(
            wrong.contains("\"soon\" is not a duration; use a number with ms, s or m, e.g. 1s"),
            "{wrong}"
        );
    }

    #[test]
    fn arguments_say_which_cores_it_reserves() {
        let reserve =
            |cores: &str| Workload::from_args(&[format!("--reserve={cores}")]).map(|parsed| parsed.reserve);
        assert_eq!(reserve("1").unwrap(), Some(1..=1));
        assert_eq!(reserve("0-3").unwrap(), Some(0..=3));
        for cores in ["", "3-0", "a", "1-", "-1"] {
            let wrong = reserve(cores).unwrap_err().to_string();
            let told = format!("{cores:?} are no cores; use a number or the first and the last, e.g. 0-3");
            assert!(wrong.contains(&told), "{wrong}");
        }
    }
}
