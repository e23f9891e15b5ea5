//! Names that a user may have meant. Called for scenarios that there are not.

/// Below this two names have nothing to do with each other.
const ALIKE: f64 = 0.85;
/// Names suggested at most.
const MOST: usize = 3;

/// `: did you mean one of a, b?` of the known names that are most alike, or `;` where none is: more may follow.
pub(super) fn did_you_mean<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let likeness = |known: &'n str| (strsim::jaro_winkler(name, known), known);
    let mut near: Vec<(f64, &str)> = known.map(likeness).filter(|(alike, _)| *alike >= ALIKE).collect();
    near.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(other.1)));
    near.dedup();
    near.truncate(MOST);
    let names: Vec<&str> = near.into_iter().map(|(_, name)| name).collect();
    match names.as_slice() {
        [] => ";".to_owned(),
        [one] => format!(": did you mean {one}?"),
        several => format!(": did you mean one of {}?", several.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case("nine-coers", ": did you mean nine-cores?")]
    #[case("documented", ": did you mean one of documented-cores, documented-devices?")]
    #[case("xyz", ";")]
    fn names_that_are_alike_are_suggested(#[case] name: &str, #[case] expected: &str) {
        let known = ["nine-cores", "documented-devices", "documented-cores", "nine-cores", "warning-seven"];
        assert_eq!(did_you_mean(name, known.into_iter()), expected);
    }
}
