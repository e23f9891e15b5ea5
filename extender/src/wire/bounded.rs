//! What a call says of each of its nodes, and of the pods that would be ended there, of which there may be only so many. Part of the
//! bodies.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use neuron_core::bounded::{List, Listed};
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::{MetaPod, MetaVictims, NodeName, RawNode, Victim, Victims};

/// Nodes of one call: as many as the largest clusters have. A name can be much shorter than what is kept and answered of it, so the
/// length of a body alone bounds neither.
pub(crate) const NODES: usize = 100_000;

/// Victims of one call, on all its nodes: kube-scheduler tries a tenth of 5,000 nodes, a node runs some hundred pods, and not all of
/// them are less important.
const VICTIMS: usize = 100_000;

/// What is said of one node.
pub(super) trait OfNode {
    /// How many pods it names.
    fn victims(&self) -> usize;
}

struct Map<'a, T>(BTreeMap<NodeName<'a>, T>);

/// A list of at most [`Listed::MOST`], or `null`.
///
/// # Errors
/// It has more.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Option<Vec<T>>, D::Error>
where
    D: Deserializer<'de>,
    T: Listed + Deserialize<'de>,
{
    Ok(Option::<List<T>>::deserialize(deserializer)?.map(|List(list)| list))
}

/// Victims by nodes, or `null`.
///
/// # Errors
/// It has more than [`NODES`], or all of them together more than [`VICTIMS`].
pub(super) fn victims<'de: 'a, 'a, D, T>(
    deserializer: D,
) -> Result<Option<BTreeMap<NodeName<'a>, T>>, D::Error>
where
    D: Deserializer<'de>,
    T: OfNode + Deserialize<'de>,
{
    Ok(Option::<Map<'a, T>>::deserialize(deserializer)?.map(|Map(map)| map))
}

impl Listed for NodeName<'_> {
    const MOST: usize = NODES;
    const WHAT: &'static str = "nodes";
}

impl Listed for RawNode<'_> {
    const MOST: usize = NODES;
    const WHAT: &'static str = "nodes";
}

impl Listed for Victim<'_> {
    const MOST: usize = VICTIMS;
    const WHAT: &'static str = "victims";
}

impl Listed for MetaPod<'_> {
    const MOST: usize = VICTIMS;
    const WHAT: &'static str = "victims";
}

impl OfNode for Victims<'_> {
    fn victims(&self) -> usize {
        self.pods.as_ref().map_or(0, Vec::len)
    }
}

impl OfNode for Option<MetaVictims<'_>> {
    fn victims(&self) -> usize {
        self.as_ref().and_then(|victims| victims.pods.as_ref()).map_or(0, Vec::len)
    }
}

impl<'de: 'a, 'a, T: OfNode + Deserialize<'de>> Deserialize<'de> for Map<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<'a, T>(PhantomData<(&'a (), T)>);

        impl<'de: 'a, 'a, T: OfNode + Deserialize<'de>> Visitor<'de> for Entries<'a, T> {
            type Value = Map<'a, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map by nodes")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map<'a, T>, A::Error> {
                let (mut map, mut victims) = (BTreeMap::new(), 0);
                while let Some((node, entry)) = entries.next_entry::<_, T>()? {
                    victims += entry.victims();
                    check::<A::Error>(victims, VICTIMS, "victims")?;
                    map.insert(node, entry);
                    check::<A::Error>(map.len(), NODES, "nodes")?;
                }
                Ok(Map(map))
            }
        }

        deserializer.deserialize_map(Entries(PhantomData))
    }
}

fn check<E: Error>(count: usize, most: usize, what: &str) -> Result<(), E> {
    if count <= most { Ok(()) } else { Err(E::custom(format_args!("more than {most} {what}"))) }
}

#[cfg(test)]
mod tests {
    use neuron_core::pod::Container;
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

    #[rstest]
    #[case::whole("NodeNameToVictims", "{\"metadata\":{\"uid\":\"u\"}}")]
    #[case::by_uid("NodeNameToMetaVictims", "{\"UID\":\"u\"}")]
    fn a_call_has_so_many_victims_and_no_more(#[case] field: &str, #[case] victim: &str) {
        let on =
            |node: &str, count| body(&format!("\"{node}\":{{\"Pods\":["), |_| victim.to_owned(), "]}", count);
        let call = |one, other| format!("{{\"{field}\":{{{},{}}}}}", on("one", one), on("other", other));
        assert_eq!(error::<PreemptArgs<'_>>(&call(VICTIMS / 2, VICTIMS / 2)), "");
        for (one, other) in [(VICTIMS / 2, VICTIMS / 2 + 1), (VICTIMS + 1, 0)] {
            let error = error::<PreemptArgs<'_>>(&call(one, other));
            assert!(error.starts_with("more than 100000 victims at line 1"), "{error}");
        }
    }

    #[rstest]
    #[case::apps("{\"Pod\":{\"spec\":{\"containers\":[", "{}", "]}}}", "containers")]
    #[case::inits("{\"Pod\":{\"spec\":{\"initContainers\":[", "{}", "]}}}", "containers")]
    #[case::mappings(
        "{\"Pod\":{\"spec\":{},\"status\":{\"extendedResourceClaimStatus\":{\"requestMappings\":[",
        "{}",
        "]}}}}",
        "request mappings"
    )]
    fn a_pod_has_so_many_parts_and_no_more(
        #[case] before: &str,
        #[case] part: &str,
        #[case] after: &str,
        #[case] what: &str,
    ) {
        let parts = |count| body(before, |_| part.to_owned(), after, count);
        assert_eq!(error::<FilterArgs<'_>>(&parts(Container::MOST)), "");
        let error = error::<FilterArgs<'_>>(&parts(Container::MOST + 1));
        assert!(error.starts_with(&format!("more than 32768 {what} at line 1")), "{error}");
    }

    /// What the texts of a pod are about, each as long as it may be; one more byte is too much.
    #[rstest]
    #[case::container("{\"spec\":{\"containers\":[{\"name\":\"", "\"}]}}", 63)]
    #[case::name("{\"spec\":{},\"metadata\":{\"name\":\"", "\"}}", 253)]
    #[case::namespace("{\"spec\":{},\"metadata\":{\"namespace\":\"", "\"}}", 63)]
    #[case::uid("{\"spec\":{},\"metadata\":{\"uid\":\"", "\"}}", 253)]
    #[case::models(
        "{\"spec\":{},\"metadata\":{\"annotations\":{\"neuron-scheduler/device-model\":\"",
        "\"}}}",
        256 << 10
    )]
    #[case::claim(
        "{\"spec\":{},\"status\":{\"extendedResourceClaimStatus\":{\"resourceClaimName\":\"",
        "\"}}}",
        253
    )]
    fn a_text_of_a_pod_is_no_longer_than_kubernetes_takes_it(
        #[case] before: &str,
        #[case] after: &str,
        #[case] most: usize,
    ) {
        let pod = |length| format!("{{\"Pod\":{before}{}{after}}}", "x".repeat(length));
        assert_eq!(error::<FilterArgs<'_>>(&pod(most)), "");
        let error = error::<FilterArgs<'_>>(&pod(most + 1));
        assert!(error.starts_with(&format!("a text of more than {most} bytes at line 1")), "{error}");
    }
}
