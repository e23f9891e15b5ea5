//! What a call says of each of its nodes, which may be only so many. Part of the bodies.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::NodeName;

/// Nodes of one call: as many as the largest clusters have. A name can be much shorter than what is kept and answered of it, so the
/// length of a body alone bounds neither.
const NODES: usize = 100_000;

struct List<T>(Vec<T>);

struct Map<'a, T>(BTreeMap<NodeName<'a>, T>);

/// A list with an entry for each node, or `null`.
///
/// # Errors
/// It has more than [`NODES`].
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<List<T>>::deserialize(deserializer)?.map(|List(list)| list))
}

/// A map by nodes, or `null`.
///
/// # Errors
/// It has more than [`NODES`].
pub(super) fn map<'de: 'a, 'a, D, T>(deserializer: D) -> Result<Option<BTreeMap<NodeName<'a>, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    Ok(Option::<Map<'a, T>>::deserialize(deserializer)?.map(|Map(map)| map))
}

fn check<E: serde::de::Error>(nodes: usize) -> Result<(), E> {
    if nodes < NODES { Ok(()) } else { Err(E::custom(format_args!("more than {NODES} nodes"))) }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of nodes")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(entry) = entries.next_element()? {
                    check(list.len())?;
                    list.push(entry);
                }
                Ok(List(list))
            }
        }

        deserializer.deserialize_seq(Entries(PhantomData))
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Map<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<'a, T>(PhantomData<(&'a (), T)>);

        impl<'de: 'a, 'a, T: Deserialize<'de>> Visitor<'de> for Entries<'a, T> {
            type Value = Map<'a, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map by nodes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map<'a, T>, A::Error> {
                let mut map = BTreeMap::new();
                while let Some((node, entry)) = entries.next_entry()? {
                    check::<A::Error>(map.len())?;
                    map.insert(node, entry);
                }
                Ok(Map(map))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::super::{FilterArgs, PreemptArgs};
    use super::*;

    /// A body with so many entries.
    fn body(before: &str, entry: impl Fn(usize) -> String, after: &str, count: usize) -> String {
        let entries: Vec<String> = (0..count).map(entry).collect();
        format!("{before}{}{after}", entries.join(","))
    }

    fn error<'de, T: Deserialize<'de>>(body: &'de str) -> String {
        serde_json::from_str::<T>(body).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_call_names_so_many_nodes_and_no_more() {
        let names = |count| body("{\"NodeNames\":[", |_| "\"n\"".to_owned(), "]}", count);
        assert_eq!(error::<FilterArgs<'_>>(&names(NODES)), "");
        let error = error::<FilterArgs<'_>>(&names(NODES + 1));
        assert!(error.starts_with("more than 100000 nodes at line 1"), "{error}");
    }

    #[test]
    fn a_call_has_no_more_full_nodes() {
        let node = |_| "{\"metadata\":{\"name\":\"n\"}}".to_owned();
        let error = error::<FilterArgs<'_>>(&body("{\"Nodes\":{\"items\":[", node, "]}}", NODES + 1));
        assert!(error.starts_with("more than 100000 nodes at line 1"), "{error}");
    }

    #[rstest]
    #[case("{\"NodeNameToVictims\":{")]
    #[case("{\"NodeNameToMetaVictims\":{")]
    fn a_call_has_victims_on_no_more_nodes(#[case] before: &str) {
        let node = |number| format!("\"{number}\":{{\"Pods\":null}}");
        let error = error::<PreemptArgs<'_>>(&body(before, node, "}}", NODES + 1));
        assert!(error.starts_with("more than 100000 nodes at line 1"), "{error}");
    }
}
