//! How long a request may take by its own query parameter `timeout`. Asked by the routes.

use std::time::Duration;

use http::Uri;

/// Go's units with so many nanoseconds each.
const UNITS: [(&str, f64); 7] =
    [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];

/// The parameter is no duration.
#[derive(Debug, thiserror::Error)]
#[error("invalid timeout specified in the request URL - time: invalid duration {text:?}")]
pub(super) struct UnreadableDeadline {
    text: String,
}

/// How long after the API server has read it the request ends; none if it does not say. A time of zero is none, too.
///
/// # Errors
/// What it says is not a duration as Go writes them.
pub(super) fn of(uri: &Uri) -> Result<Option<Duration>, UnreadableDeadline> {
    let mut parameters = uri.query().unwrap_or_default().split('&');
    let text = parameters.find_map(|one| one.strip_prefix("timeout=")).filter(|text| !text.is_empty());
    let Some(text) = text else { return Ok(None) };
    let duration = duration(text).ok_or_else(|| UnreadableDeadline { text: text.to_owned() })?;
    Ok(Some(duration).filter(|duration| !duration.is_zero()))
}

/// Numbers that each have a unit, such as `1m30.5s`; a zero needs none.
fn duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let (mut rest, mut nanoseconds) = (text, 0.0);
    loop {
        let end = rest.find(|one: char| !one.is_ascii_digit() && one != '.')?;
        let (number, unit) = rest.split_at(end);
        let end = unit.find(|one: char| one.is_ascii_digit() || one == '.').unwrap_or(unit.len());
        let (unit, more) = unit.split_at(end);
        let (_, each) = UNITS.iter().find(|(name, _)| *name == unit)?;
        nanoseconds += number.parse::<f64>().ok()? * each;
        if more.is_empty() {
            return Duration::try_from_secs_f64(nanoseconds / 1e9).ok();
        }
        rest = more;
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none("/a?b=c", Some(None))]
    #[case::nothing_said("/a", Some(None))]
    #[case::without_end("/a?timeout=0s", Some(None))]
    #[case::milliseconds("/a?b=c&timeout=2500ms", Some(Some(2500)))]
    #[case::several_units("/a?timeout=1m30.5s", Some(Some(90_500)))]
    #[case::no_unit("/a?timeout=3", None)]
    #[case::no_number("/a?timeout=s", None)]
    #[case::no_such_unit("/a?timeout=3d", None)]
    fn a_request_says_how_long_it_may_take(#[case] uri: &str, #[case] wanted: Option<Option<u64>>) {
        let read = of(&uri.parse().unwrap()).ok();
        assert_eq!(read, wanted.map(|wanted| wanted.map(Duration::from_millis)));
    }
}
