//! The text of `/metrics` as a snapshot can have it. Used by the tests of both programs.

/// OpenMetrics' text without what depends on time (buckets and sums of seconds), and the samples of each metric in order.
pub fn without_times(text: &str) -> String {
    let is_of_time = |line: &str| {
        let name = line.split(['{', ' ']).next().unwrap_or_default();
        name.ends_with("_seconds_bucket") || name.ends_with("_seconds_sum")
    };
    let mut lines: Vec<&str> = text.lines().filter(|line| !is_of_time(line)).collect();
    for samples in lines.chunk_by_mut(|one, other| !one.starts_with('#') && !other.starts_with('#')) {
        samples.sort_unstable();
    }
    lines.join("\n")
}
