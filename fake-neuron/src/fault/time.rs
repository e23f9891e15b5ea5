//! Durations as users write them: `500ms`, `5s`, `2m`, `1h`. Called by [`super::FaultSpec`] and the command line.

use std::time::Duration;

/// Reads a duration: a whole number and its unit, `ms`, `s`, `m` or `h`.
///
/// # Errors
/// Anything else, with what to write.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is no duration: write a whole number and ms, s, m or h, such as 5s");
    let digits = text.len() - text.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let milliseconds = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err(wrong()),
    };
    number.checked_mul(milliseconds).map(Duration::from_millis).ok_or_else(wrong)
}

/// The duration as [`parse_duration`] reads it, in the largest unit that leaves no rest; parts of a millisecond are dropped.
pub fn duration_text(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let fits = |(size, _): &&(u128, &str)| milliseconds > 0 && milliseconds.is_multiple_of(*size);
    match units.iter().find(fits) {
        Some((size, unit)) => format!("{}{unit}", milliseconds / size),
        None => format!("{milliseconds}ms"),
    }
}
