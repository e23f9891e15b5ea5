//! Answers that are full of nodes' names, as JSON. serde_json looks through every key and text for what must be escaped, of which a node's
//! name has nothing, and writes each by itself, while those that pass stand one after the other in the body already: filter and prioritize
//! cost a quarter less so (`benches/verbs`). To the byte what serde_json writes. Sent by the routes.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::{FilterResult, NodeName, NodeScore, Why};

/// What stands between two names of a list.
const NEXT_NAME: &str = r#"",""#;

/// What stands around a node's name and the reason why it does not take the pod.
const AROUND_FAILED: &str = r#""":"","#;

/// Bytes of all keys of filter's answer, and more than stand around them.
const AROUND_ALL: usize = 256;

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
pub(crate) fn scores_to_json(scores: &[NodeScore<'_>]) -> Vec<u8> {
    if scores.is_empty() {
        return b"[]".to_vec();
    }
    let longest = NEXT_HOST[NEXT_HOST.len() - 1].len();
    let length: usize = scores.iter().map(|score| score.host.0.len() + longest).sum();
    let mut json = Vec::with_capacity(length + "[".len() + HOST.len());
    json.push(b'[');
    json.extend_from_slice(HOST.as_bytes());
    for NodeScore { host, score } in scores {
        push_name(&mut json, host);
        json.extend_from_slice(NEXT_HOST[usize::from(*score).min(NEXT_HOST.len() - 1)].as_bytes());
    }
    // No host comes next.
    json.truncate(json.len() - HOST.len() - ",".len());
    json.push(b']');
    json
}

impl FilterResult<'_> {
    /// About how long the answer is as JSON, if nothing in it has to be escaped.
    pub(crate) fn length(&self) -> usize {
        let names = self.node_names.iter().flatten().map(|name| name.0.len() + NEXT_NAME.len());
        let nodes = self.nodes.iter().flat_map(|nodes| &nodes.items).map(|node| node.get().len() + ",".len());
        let failed = [&self.failed_nodes, &self.failed_and_unresolvable_nodes].into_iter().flatten();
        let failed = failed.map(|(name, Why(why))| name.0.len() + why.len() + AROUND_FAILED.len());
        names.chain(nodes).chain(failed).sum::<usize>() + self.error.len() + AROUND_ALL
    }

    /// The answer as JSON, to what was asked with `body`.
    ///
    /// # Errors
    /// None that is known: texts and nodes that came as JSON can be written as JSON.
    pub(crate) fn to_json(&self, body: &[u8]) -> serde_json::Result<Vec<u8>> {
        let Some(names) = &self.node_names else { return serde_json::to_vec(self) };
        let mut json = Vec::with_capacity(self.length());
        json.extend_from_slice(b"{\"Nodes\":");
        serde_json::to_writer(&mut json, &self.nodes)?;
        json.extend_from_slice(b",\"NodeNames\":[");
        push_names(&mut json, names, body);
        json.extend_from_slice(b"],\"FailedNodes\":");
        serde_json::to_writer(&mut json, &self.failed_nodes)?;
        json.extend_from_slice(b",\"FailedAndUnresolvableNodes\":");
        serde_json::to_writer(&mut json, &self.failed_and_unresolvable_nodes)?;
        json.extend_from_slice(b",\"Error\":");
        serde_json::to_writer(&mut json, &self.error)?;
        json.push(b'}');
        Ok(json)
    }
}

/// Adds what stands between the brackets of a list of these names. Those that stand in the body one after the other, as between two that
/// do not pass, are copied from there at once.
fn push_names(json: &mut Vec<u8>, names: &[NodeName<'_>], body: &[u8]) {
    let mut left = names;
    while let Some((first, mut others)) = left.split_first() {
        json.push(b'"');
        if let Some(mut together) = place(first, body) {
            while let Some((next, after)) = others.split_first()
                && let Some(next) = place(next, body)
                && body.get(together.end..next.start) == Some(NEXT_NAME.as_bytes())
            {
                together.end = next.end;
                others = after;
            }
            json.extend_from_slice(body.get(together).unwrap_or_default());
        } else {
            push_name(json, first);
        }
        json.push(b'"');
        if !others.is_empty() {
            json.push(b',');
        }
        left = others;
    }
}

/// Where the name stands in the body, as JSON between quotes: one that JSON escapes was not borrowed from there.
fn place(name: &NodeName<'_>, body: &[u8]) -> Option<Range<usize>> {
    let Cow::Borrowed(name) = name.0 else { return None };
    let start = name.as_ptr().addr().checked_sub(body.as_ptr().addr())?;
    let end = start.checked_add(name.len())?;
    (end <= body.len()).then_some(start..end)
}

/// Adds the name, without the quotes around it.
fn push_name(json: &mut Vec<u8>, name: &NodeName<'_>) {
    // Every byte is looked at, which the processor does for sixteen at once, as it cannot where the first that escapes ends it.
    let is_plain =
        name.0.bytes().fold(true, |plain, byte| plain & (byte >= b' ') & (byte != b'"') & (byte != b'\\'));
    if is_plain {
        json.extend_from_slice(name.0.as_bytes());
    } else {
        let quoted = Value::from(&*name.0).to_string();
        let inside = quoted.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        json.extend_from_slice(inside.unwrap_or_default().as_bytes());
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

    fn text(json: Vec<u8>) -> String {
        String::from_utf8(json).unwrap()
    }

    #[test]
    fn the_length_of_an_answer_is_known_before_it_is_written() {
        let failed = (0..1000).map(|number| (NodeName(format!("n{number}").into()), Why("full".into())));
        let names: Vec<String> = (0..1000).map(|number| format!("m{number}")).collect();
        let answer = FilterResult {
            node_names: Some(names.iter().map(|given| name(given)).collect()),
            failed_nodes: failed.collect(),
            ..FilterResult::default()
        };
        let written = answer.to_json(b"").unwrap().len();
        assert!((written..written + AROUND_ALL).contains(&answer.length()), "{written}: {}", answer.length());
    }

    proptest! {
        #[test]
        fn scores_are_what_serde_json_writes(scores in vec((NAMES, 0..=10_u8), 0..5)) {
            let mut given = Vec::new();
            for (host, score) in &scores {
                given.push(NodeScore { host: name(host), score: *score });
            }
            prop_assert_eq!(text(scores_to_json(&given)), serde_json::to_string(&given).unwrap());
        }

        #[test]
        fn names_that_are_copied_together_are_what_serde_json_writes(
            asked in vec((NAMES, proptest::bool::ANY, prop_oneof![3 => Just(","), 1 => Just(" ,"), 1 => Just(", ")]), 0..9),
        ) {
            let mut body = String::from("[");
            for (at, (name, _, comma)) in asked.iter().enumerate() {
                if at > 0 {
                    body.push_str(comma);
                }
                body.push_str(&Value::from(name.as_str()).to_string());
            }
            body.push(']');
            let names: Vec<NodeName<'_>> = serde_json::from_str(&body).unwrap();
            let names = names.into_iter().zip(&asked).filter(|(_, (_, passes, _))| *passes).map(|(name, _)| name);
            let names = Some(names.collect());
            let answer = FilterResult { node_names: names, ..FilterResult::default() };
            let written = answer.to_json(body.as_bytes()).unwrap();
            prop_assert_eq!(text(written), serde_json::to_string(&answer).unwrap());
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
                failed_nodes: failed.iter().map(|(node, why)| (name(node), Why(why.as_str().into()))).collect(),
                failed_and_unresolvable_nodes: never.iter().map(|(node, why)| (name(node), Why(why.as_str().into()))).collect(),
                error,
            };
            prop_assert_eq!(text(answer.to_json(b"").unwrap()), serde_json::to_string(&answer).unwrap());
        }
    }
}
