//! The form of a node's name: a DNS subdomain, in apimachinery's words (`content.IsDNS1123Subdomain`). Called by
//! `verbs::bind`.

/// The most bytes of a DNS subdomain.
const LONGEST: usize = 253;

/// Every rule that the name breaks.
pub(crate) fn broken_rules(name: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if name.len() > LONGEST {
        broken.push(format!("must be no more than {LONGEST} bytes"));
    }
    if !name.split('.').all(is_label) {
        broken.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    broken
}

fn is_label(label: &str) -> bool {
    let is_edge = |char: char| char.is_ascii_lowercase() || char.is_ascii_digit();
    label.starts_with(is_edge)
        && label.ends_with(is_edge)
        && label.chars().all(|char| is_edge(char) || char == '-')
}
