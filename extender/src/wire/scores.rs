//! The answer of `/prioritize`: a bare array of scores. Made by `verbs::prioritize`, sent by the routes.

use serde::Serialize;
use serde_json::Value;

use super::NodeName;

/// The score of one node.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct NodeScore<'a> {
    /// The node.
    pub(crate) host: NodeName<'a>,
    /// 0 to 10; more is better.
    pub(crate) score: u8,
}

/// Bytes for one score beside the name.
const BESIDE_THE_NAME: usize = r#"{"Host":"","Score":10},"#.len();

/// Every score as text.
const TEXTS: [&str; 11] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10"];

/// The scores as JSON, to the byte as serde_json writes them; one above 10 counts as 10. They are written here because that is most of what the call costs:
/// serde_json looks through every key and every name for what must be escaped, and a node's name has none of it.
pub(crate) fn scores_to_json(scores: &[NodeScore<'_>]) -> String {
    let length: usize = scores.iter().map(|score| score.host.0.len() + BESIDE_THE_NAME).sum();
    let mut json = String::with_capacity(length + "[]".len());
    json.push('[');
    for NodeScore { host, score } in scores {
        json.push_str(if json.len() == 1 { "{\"Host\":" } else { ",{\"Host\":" });
        if is_plain(&host.0) {
            json.push('"');
            json.push_str(&host.0);
            json.push('"');
        } else {
            json.push_str(&Value::from(&*host.0).to_string());
        }
        json.push_str(",\"Score\":");
        json.push_str(TEXTS[usize::from(*score).min(TEXTS.len() - 1)]);
        json.push('}');
    }
    json.push(']');
    json
}

/// Whether all of the name is what Kubernetes allows in a node's name, of which JSON escapes nothing.
fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_what_serde_json_writes(
            scores in proptest::collection::vec(("[a-z0-9.-]{1,40}|\\PC{0,9}|[\"\\\\\u{0}-\u{20}]{1,3}", 0..=10_u8), 0..5)
        ) {
            let mut given = Vec::new();
            for (host, score) in &scores {
                given.push(NodeScore { host: NodeName(host.as_str().into()), score: *score });
            }
            prop_assert_eq!(scores_to_json(&given), serde_json::to_string(&given).unwrap());
        }
    }
}
