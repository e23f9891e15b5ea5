//! A Binding as Kubernetes' protobuf, as kube-scheduler itself sends it: to read one with a record as JSON takes the API
//! server 0.08 ms (docs/performance.md). Called by [`super::post`].
//!
//! Written down here are the fields that a Binding of ours has (k8s.io/api/core/v1/generated.proto and
//! k8s.io/apimachinery/pkg/{apis/meta/v1,runtime}/generated.proto); their numbers never change.

use std::collections::BTreeMap;

use prost::Message;

use super::Order;

/// What the body is.
pub(super) const CONTENT_TYPE: &str = "application/vnd.kubernetes.protobuf";
/// What every object begins with.
const MAGIC: &[u8] = b"k8s\0";

/// The Binding that the order asks for, as a request's body.
pub(super) fn binding(order: &Order) -> Vec<u8> {
    let Order { namespace, name, uid, node, annotations } = order.clone();
    let metadata = ObjectMeta { name, namespace, uid, annotations };
    let target = ObjectReference { kind: "Node".to_owned(), name: node, api_version: "v1".to_owned() };
    let raw = Binding { metadata: Some(metadata), target: Some(target) }.encode_to_vec();
    let type_meta = TypeMeta { api_version: "v1".to_owned(), kind: "Binding".to_owned() };
    let object = Unknown { type_meta: Some(type_meta), raw };
    [MAGIC, &object.encode_to_vec()].concat()
}

/// An object of any type.
#[derive(Clone, PartialEq, Message)]
struct Unknown {
    #[prost(message, optional, tag = "1")]
    type_meta: Option<TypeMeta>,
    #[prost(bytes = "vec", tag = "2")]
    raw: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct Binding {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    target: Option<ObjectReference>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectMeta {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "3")]
    namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(btree_map = "string, string", tag = "12")]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, PartialEq, Message)]
struct ObjectReference {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
    #[prost(string, tag = "5")]
    api_version: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_the_api_server_reads() {
        let order = Order {
            namespace: "d".to_owned(),
            name: "p".to_owned(),
            uid: "u".to_owned(),
            node: "n".to_owned(),
            annotations: BTreeMap::from([("a".to_owned(), "1".to_owned())]),
        };
        // Each field is its number and kind in a byte (2: so many bytes follow), its length, and itself.
        let wanted = [
            b"k8s\0".as_slice(),
            b"\x0a\x0d\x0a\x02v1\x12\x07Binding",
            b"\x12\x22",
            b"\x0a\x11\x0a\x01p\x1a\x01d\x2a\x01u\x62\x06\x0a\x01a\x12\x011",
            b"\x12\x0d\x0a\x04Node\x1a\x01n\x2a\x02v1",
        ];
        assert_eq!(binding(&order), wanted.concat());
    }
}
