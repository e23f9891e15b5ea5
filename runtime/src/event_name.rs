//! Names of events. Used by the extender and the device plugin.

/// The longest name of an object, in bytes (DNS subdomain, RFC 1123).
const LONGEST: usize = 253;

/// The name of an event about the object of this name, at most 253 bytes. Its end is the random number: of two events about one object the
/// clock may tell the same time.
#[must_use]
pub fn event_name(about: &str, random: u64) -> String {
    let end = format!(".{random:016x}");
    let most = about.floor_char_boundary(LONGEST - end.len());
    // Before a dot stands a letter or a digit.
    let about = about[..most].trim_end_matches(['-', '.']);
    format!("{about}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_in_the_number_however_long_the_object_is_called() {
        assert_eq!(event_name("web-0", 10), "web-0.000000000000000a");
        let longest = "a".repeat(LONGEST);
        assert_eq!(event_name(&longest, 10), format!("{}.000000000000000a", "a".repeat(236)));
        let cut_at_a_dot = format!("{}.-b", "a".repeat(234));
        assert_eq!(event_name(&cut_at_a_dot, 10), format!("{}.000000000000000a", "a".repeat(234)));
    }
}
