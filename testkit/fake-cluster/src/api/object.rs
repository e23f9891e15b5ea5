//! Access to the fields that every Kubernetes object has, in plain JSON. Used all over this folder.

use serde_json::{Map, Value};

/// The text under field names that each follow on a slash, as in `/spec/nodeName`, or "" where there is none. Unlike a JSON
/// pointer it has no escapes, and takes no memory: it is asked for at every write.
pub fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    let found = path.split('/').skip(1).try_fold(object, |object, field| object.get(field));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// The resourceVersion that the object carries, "" when it has none.
pub(crate) fn resource_version(object: &Value) -> &str {
    text(object, "/metadata/resourceVersion")
}

/// The metadata, made if it is missing.
pub(crate) fn metadata_mut(object: &mut Value) -> &mut Map<String, Value> {
    map_mut(object, "metadata")
}

/// The object under `field`; anything that is not an object there is replaced by an empty one.
pub(crate) fn map_mut<'a>(object: &'a mut Value, field: &str) -> &'a mut Map<String, Value> {
    let inner = as_map(object).entry(field).or_insert(Value::Null);
    as_map(inner)
}

/// The value as a map; anything else becomes an empty one.
pub(crate) fn as_map(value: &mut Value) -> &mut Map<String, Value> {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match value {
        Value::Object(fields) => fields,
        _ => unreachable!("the value was made an object above"),
    }
}

/// Sets `field` to `value`, or removes it for `None`.
pub(crate) fn put(fields: &mut Map<String, Value>, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => drop(fields.insert(field.into(), value.clone())),
        None => drop(fields.remove(field)),
    }
}
