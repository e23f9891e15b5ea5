//! Turns a client's object into the form that is stored. Called by the verbs that write.

use serde_json::Value;

use super::event;
use super::table::Resource;
use crate::api::error::ApiError;
use crate::api::object::metadata_mut;

/// The object without `apiVersion`, `kind` and `managedFields`, which are not stored, and under the stored field names.
/// 400 when it does not fit the resource's type.
pub(crate) fn decode(resource: &Resource, object: Value) -> Result<Value, ApiError> {
    let mut object =
        (resource.retype)(object).map_err(|error| ApiError::not_of_kind(resource, &error.to_string()))?;
    if let Value::Object(fields) = &mut object {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    metadata_mut(&mut object).remove("managedFields");
    Ok(event::stored(resource, object))
}
