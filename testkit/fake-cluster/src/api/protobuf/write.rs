//! JSON as protobuf, by the schema.

use jiff::Timestamp;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use serde_json::{Map, Value};

use super::schema::{self, Fields, Kind};
use super::{MAGIC, TypeMeta, Unknown};

/// The object, as it stands in a body; `None` if its kind is not answered in protobuf.
pub(super) fn object(object: &Value) -> Option<Vec<u8>> {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let type_meta = TypeMeta { api_version: text("apiVersion"), kind: text("kind") };
    let raw = message(object, schema::of(&type_meta.kind)?).into();
    Some([MAGIC, &Unknown { type_meta, raw }.encode_to_vec()].concat())
}

/// A frame of a watch: its length, and the event's kind and object.
pub(super) fn frame(kind: &str, object: &[u8]) -> Vec<u8> {
    let (mut event, mut raw) = (Vec::new(), Vec::new());
    bytes(&mut raw, 1, object);
    bytes(&mut event, 1, kind.as_bytes());
    bytes(&mut event, 2, &raw);
    let length = u32::try_from(event.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), &event].concat()
}

pub(super) fn message(object: &Value, fields: Fields) -> Vec<u8> {
    let mut written = Vec::new();
    for (name, number, kind) in fields {
        match object.get(name) {
            None | Some(Value::Null) => {}
            Some(Value::Array(values)) => {
                values.iter().for_each(|value| field(&mut written, *number, value, *kind))
            }
            Some(value) => field(&mut written, *number, value, *kind),
        }
    }
    written
}

fn field(out: &mut Vec<u8>, number: u32, value: &Value, kind: Kind) {
    match kind {
        Kind::Text => bytes(out, number, text(value).as_bytes()),
        Kind::Number => whole(out, number, value.as_i64().unwrap_or_default()),
        Kind::Flag => whole(out, number, value.as_bool().unwrap_or_default().into()),
        Kind::Time => {
            let time = text(value).parse::<Timestamp>().unwrap_or_default();
            let mut seconds = Vec::new();
            whole(&mut seconds, 1, time.as_second());
            bytes(out, number, &seconds);
        }
        Kind::Quantity => {
            let mut quantity = Vec::new();
            bytes(&mut quantity, 1, text(value).as_bytes());
            bytes(out, number, &quantity);
        }
        Kind::Json => {
            let mut json = Vec::new();
            bytes(&mut json, 1, value.to_string().as_bytes());
            bytes(out, number, &json);
        }
        Kind::Texts => map(out, number, value, Kind::Text),
        Kind::Quantities => map(out, number, value, Kind::Quantity),
        Kind::Message(fields) => bytes(out, number, &message(value, fields)),
    }
}

/// Each entry is a message with the name and the value.
fn map(out: &mut Vec<u8>, number: u32, value: &Value, kind: Kind) {
    for (name, value) in value.as_object().into_iter().flat_map(Map::iter) {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        field(&mut entry, 2, value, kind);
        bytes(out, number, &entry);
    }
}

/// A text as it is; of anything else, such as a quantity that is a number, its JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn bytes(out: &mut Vec<u8>, number: u32, bytes: &[u8]) {
    encode_key(number, WireType::LengthDelimited, out);
    encode_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn whole(out: &mut Vec<u8>, number: u32, value: i64) {
    encode_key(number, WireType::Varint, out);
    // A negative number is its two's complement.
    encode_varint(value as u64, out);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_written_field_by_field() {
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "annotations": {"a": "1"}, "selfLink": "/"},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"x": 2}}}]},
            "status": {"conditions": [{"type": "T", "lastTransitionTime": "1970-01-01T00:00:05Z"}]},
        });
        // Each field is its number and kind in a byte (2: so many bytes follow, 0: a number), its length, and itself.
        let raw = [
            b"\x0a\x0b\x0a\x01p\x62\x06\x0a\x01a\x12\x011".as_slice(),
            b"\x12\x11\x12\x0f\x0a\x01c\x42\x0a\x0a\x08\x0a\x01x\x12\x03\x0a\x012",
            b"\x1a\x09\x12\x07\x0a\x01T\x22\x02\x08\x05",
        ];
        let wanted = [b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x2b".as_slice(), &raw.concat()].concat();
        assert_eq!(object(&pod), Some(wanted));
        assert_eq!(object(&json!({"apiVersion": "v1", "kind": "Lease"})), None);
    }

    #[test]
    fn a_frame_is_its_length_and_the_event() {
        assert_eq!(frame("DELETED", b"xy"), b"\0\0\0\x0f\x0a\x07DELETED\x12\x04\x0a\x02xy");
    }
}
