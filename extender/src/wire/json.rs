//! Answers that are full of nodes' names, as JSON. serde_json looks through every key and text for what must be escaped, of which a node's
//! name has nothing: without that prioritize costs a quarter less (`benches/verbs`). To the byte what serde_json writes. Sent by the routes.

use serde_json::Value;

use super::{FilterResult, NodeName, NodeScore};

/// What stands between two names of a list.
const NEXT_NAME: &str = r#"",""#;

/// What stands before the first host of a list of scores, and, after a comma, before each other one.
const HOST: &str = r#"{"Host":""#;

/// What stands between a host and the next one, by the score of the first: one piece a node, as in a list of names.
const NEXT_HOST: [&str; 11] = [
    r#"","Score":0},{"Host":""#,
    r#"","Score":1},{"Host":""#,
    r#"","Score":2},{"Host":""#,
    r#"","Score":3},{"Host":""#,
    r#"","Score":4},{"Host":""#,
    r#"","Score":5},{"Host":""#,
    r#"","Score":6},{"Host":""#,
    r#"","Score":7},{"Host":""#,
    r#"","Score":8},{"Host":""#,
    r#"","Score":9},{"Host":""#,
    r#"","Score":10},{"Host":""#,
];

/// The scores as JSON; one above 10 counts as 10.
pub(crate) fn scores_to_json(scores: &[NodeScore<'_>]) -> String {
    if scores.is_empty() {
        return "[]".to_owned();
    }
    let longest = NEXT_HOST[NEXT_HOST.len() - 1].len();
    let length: usize = scores.iter().map(|score| score.host.0.len() + longest).sum();
    let mut json = String::with_capacity(length + "[".len() + HOST.len());
    json.push('[');
    json.push_str(HOST);
    for NodeScore { host, score } in scores {
        push_name(&mut json, host);
        json.push_str(NEXT_HOST[usize::from(*score).min(NEXT_HOST.len() - 1)]);
    }
    // No host comes next.
    json.truncate(json.len() - HOST.len() - ",".len());
    json.push(']');
    json
}

impl FilterResult<'_> {
    /// The answer as JSON.
    ///
    /// # Errors
    /// None that is known: texts and nodes that came as JSON can be written as JSON.
    pub(crate) fn to_json(&self) -> serde_json::Result<String> {
        let Some(names) = &self.node_names else { return serde_json::to_string(self) };
        let length: usize = names.iter().map(|name| name.0.len() + NEXT_NAME.len()).sum();
        let mut json = String::with_capacity(length + 256);
        json.push_str("{\"Nodes\":");
        json.push_str(&serde_json::to_string(&self.nodes)?);
        json.push_str(",\"NodeNames\":[");
        if !names.is_empty() {
            json.push('"');
            for name in names {
                push_name(&mut json, name);
                json.push_str(NEXT_NAME);
            }
            // No name comes next.
            json.truncate(json.len() - ",\"".len());
        }
        json.push_str("],\"FailedNodes\":");
        json.push_str(&serde_json::to_string(&self.failed_nodes)?);
        json.push_str(",\"FailedAndUnresolvableNodes\":");
        json.push_str(&serde_json::to_string(&self.failed_and_unresolvable_nodes)?);
        json.push_str(",\"Error\":");
        json.push_str(&serde_json::to_string(&self.error)?);
        json.push('}');
        Ok(json)
    }
}

/// Adds the name, without the quotes around it.
fn push_name(json: &mut String, name: &NodeName<'_>) {
    // Every byte is looked at, which the processor does for sixteen at once, as it cannot where the first that escapes ends it.
    let is_plain =
        name.0.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
    if is_plain {
        json.push_str(&name.0);
    } else {
        let quoted = Value::from(&*name.0).to_string();
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        json.push_str(inside.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_map, vec};
    use proptest::prelude::*;
    use serde_json::value::to_raw_value;

    use super::super::FittingNodes;
    use super::*;

    /// Names, and what is none.
    const NAMES: &str = "[a-z0-9.-]{1,40}|\\PC{0,9}|[\"\\\\\u{0}-\u{20}]{1,3}";

    fn name(name: &str) -> NodeName<'_> {
        NodeName(name.into())
    }

    proptest! {
        #[test]
        fn scores_are_what_serde_json_writes(scores in vec((NAMES, 0..=10_u8), 0..5)) {
            let mut given = Vec::new();
            for (host, score) in &scores {
                given.push(NodeScore { host: name(host), score: *score });
            }
            prop_assert_eq!(scores_to_json(&given), serde_json::to_string(&given).unwrap());
        }

        #[test]
        fn a_filters_answer_is_what_serde_json_writes(
            names in proptest::option::of(vec(NAMES, 0..5)),
            failed in btree_map(NAMES, NAMES, 0..3),
            never in btree_map(NAMES, NAMES, 0..3),
            has_nodes: bool,
            error in NAMES,
        ) {
            let node = to_raw_value(&serde_json::json!({"metadata": {"name": "n1"}})).unwrap();
            let nodes = FittingNodes { items: vec![&node], ..FittingNodes::default() };
            let answer = FilterResult {
                nodes: has_nodes.then_some(nodes),
                node_names: names.as_ref().map(|names| names.iter().map(|given| name(given)).collect()),
                failed_nodes: failed.iter().map(|(node, why)| (name(node), why.clone())).collect(),
                failed_and_unresolvable_nodes: never.iter().map(|(node, why)| (name(node), why.clone())).collect(),
                error,
            };
            prop_assert_eq!(answer.to_json().unwrap(), serde_json::to_string(&answer).unwrap());
        }
    }
}
