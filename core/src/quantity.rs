//! Kubernetes quantities as far as counts of devices need them. Used by [`crate::pod`] and [`crate::request`].

use serde::{Deserialize, Deserializer, Serialize};

/// A quantity as it stood in the manifest: `2`, `"2"`, `"2000m"`, `"2k"`, `"2e0"`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Quantity(String);

/// Why a quantity is not a count. Each text ends a sentence that names container and resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// Not written as a quantity.
    #[error("{0:?} is not a quantity; use a whole number")]
    NotAQuantity(String),
    /// Below zero.
    #[error("{0} is negative; use a whole number")]
    Negative(String),
    /// Not whole.
    #[error("{0} is not whole; use a whole number")]
    Fractional(String),
    /// More than any node has.
    #[error("{0} is more than any node has; use a whole number up to {MOST}")]
    Huge(String),
}

/// The largest count that is read, far above what any node has.
pub const MOST: u32 = 1_000_000;

impl Quantity {
    /// The text as a quantity; it is judged by [`Quantity::count`].
    pub fn new(text: &str) -> Self {
        Quantity(text.to_owned())
    }

    /// The whole number it stands for, 0 to [`MOST`].
    #[allow(clippy::todo)]
    pub fn count(&self) -> Result<u32, QuantityError> {
        todo!()
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Number(serde_json::Number),
        }
        Ok(Quantity(match Form::deserialize(deserializer)? {
            Form::Text(text) => text,
            Form::Number(number) => number.to_string(),
        }))
    }
}
