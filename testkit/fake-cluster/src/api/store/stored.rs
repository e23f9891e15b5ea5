//! One version of an object, with its JSON, which is written once for everybody who reads it.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use serde_json::Value;

use crate::api::kinds::event;
use crate::api::kinds::table::Resource;

/// An object as it is stored, without `apiVersion` and `kind`. It is read as the [`Value`] that it holds.
#[derive(Debug)]
pub(crate) struct Stored {
    object: Arc<Value>,
    /// Under the stored field names, and under those of the other event API.
    json: [OnceLock<Bytes>; 2],
}

impl Stored {
    pub(super) fn new(object: Value) -> Arc<Self> {
        Arc::new(Self { object: Arc::new(object), json: Default::default() })
    }

    /// The object itself.
    pub(crate) fn object(&self) -> &Arc<Value> {
        &self.object
    }

    /// Its JSON under the field names of `resource`, without `apiVersion` and `kind`.
    pub(crate) fn json(&self, resource: &Resource) -> &Bytes {
        self.json[usize::from(event::is_renamed(resource))].get_or_init(|| {
            // JSON values always serialise: their keys are strings.
            serde_json::to_vec(&event::shown(resource, &self.object)).unwrap_or_default().into()
        })
    }

    /// About how many bytes it takes in memory.
    pub(super) fn weight(&self) -> usize {
        weight(&self.object)
    }
}

impl Deref for Stored {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.object
    }
}

/// A value's own size, and about what an entry of a map takes beside its key and value.
const VALUE: usize = size_of::<Value>();
const ENTRY: usize = 32;

fn weight(value: &Value) -> usize {
    VALUE
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(values) => values.iter().map(weight).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| ENTRY + name.len() + weight(value)).sum()
            }
        }
}
