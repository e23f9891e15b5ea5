//! One full node in the body of `/filter`. Part of [`super::NodeList`].

use std::fmt;

use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::NodeName;

/// A node as it came in: it is handed back untouched, and only its name is read.
#[derive(Clone, Debug)]
pub(crate) struct RawNode<'a> {
    pub(crate) name: NodeName<'a>,
    pub(crate) json: &'a RawValue,
}

impl<'de: 'a, 'a> Deserialize<'de> for RawNode<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let json = <&RawValue>::deserialize(deserializer)?;
        let name = name_of(json)
            .map_err(|error| D::Error::custom(format_args!("a node without a readable name: {error}")))?;
        Ok(Self { name, json })
    }
}

/// `metadata.name`. Go writes it first: what comes after it is not read again, which would double the work of a call.
fn name_of(node: &RawValue) -> Result<NodeName<'_>, serde_json::Error> {
    let mut name = None;
    let found = Find { path: &["metadata", "name"], name: &mut name };
    // Stopping half-way is an error to the parser; the name was found all the same.
    let read = found.deserialize(&mut serde_json::Deserializer::from_str(node.get()));
    match (name, read) {
        (Some(name), _) => Ok(name),
        (None, Err(error)) => Err(error),
        (None, Ok(())) => Err(serde_json::Error::custom("it has no metadata.name")),
    }
}

/// Looks for the text at the path, and stops reading once it is there.
struct Find<'f, 'de> {
    path: &'f [&'static str],
    name: &'f mut Option<NodeName<'de>>,
}

impl<'de> DeserializeSeed<'de> for Find<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.path {
            [] => {
                *self.name = Some(NodeName::deserialize(deserializer)?);
                Ok(())
            }
            _ => deserializer.deserialize_map(self),
        }
    }
}

impl<'de> Visitor<'de> for Find<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an object with {:?}", self.path.join("."))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let [wanted, rest @ ..] = self.path else { return Ok(()) };
        while let Some(NodeName(key)) = map.next_key()? {
            if key == *wanted {
                return map.next_value_seed(Find { path: rest, name: self.name });
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::as_go_writes_it(r#"{"metadata":{"name":"n1","uid":"u"},"spec":{}}"#)]
    #[case::last(r#"{"spec":{"a":[1]},"metadata":{"labels":{"name":"no"},"name":"n1"}}"#)]
    #[case::escaped(r#"{"metadata":{"\u006eame":"n\u0031"}}"#)]
    fn the_name_is_found(#[case] json: &str) {
        let node: RawNode<'_> = serde_json::from_str(json).unwrap();
        assert_eq!((&*node.name.0, node.json.get()), ("n1", json));
    }

    #[rstest]
    #[case::none(r#"{"metadata":{"uid":"u"}}"#, "it has no metadata.name")]
    #[case::no_metadata("{}", "it has no metadata.name")]
    #[case::no_text(r#"{"metadata":{"name":7}}"#, "invalid type: integer `7`, expected a string")]
    #[case::no_object("[]", "expected an object with \"metadata.name\"")]
    fn a_node_without_a_name_is_an_error(#[case] json: &str, #[case] why: &str) {
        let error = serde_json::from_str::<RawNode<'_>>(json).unwrap_err().to_string();
        assert!(error.starts_with("a node without a readable name: ") && error.contains(why), "{error}");
    }
}
