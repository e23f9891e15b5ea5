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
    #[error("{0} is more than any node has; use a whole number up to {MAX_COUNT}")]
    Huge(String),
}

/// The largest count that is read, far above what any node has.
pub const MAX_COUNT: u32 = 1_000_000;

impl Quantity {
    /// The text as a quantity; it is judged by [`Quantity::count`].
    pub fn new(text: &str) -> Self {
        Quantity(text.to_owned())
    }

    /// The whole number it stands for, 0 to [`MAX_COUNT`]; forms as the API server takes them.
    pub fn count(&self) -> Result<u32, QuantityError> {
        let text = || self.0.clone();
        let parts = Parts::read(&self.0).ok_or_else(|| QuantityError::NotAQuantity(text()))?;
        if parts.digits.is_empty() {
            return Ok(0);
        }
        if parts.negative {
            return Err(QuantityError::Negative(text()));
        }
        // The largest power is far above MAX_COUNT and far below what overflows.
        let power = parts.power.clamp(-30, 30);
        let scale = 10u128.pow(power.unsigned_abs() as u32);
        let Some(number) =
            parts.digits.parse::<u128>().ok().and_then(|digits| digits.checked_mul(parts.factor))
        else {
            return Err(if power < 0 {
                QuantityError::Fractional(text())
            } else {
                QuantityError::Huge(text())
            });
        };
        if power < 0 && !number.is_multiple_of(scale) {
            return Err(QuantityError::Fractional(text()));
        }
        let number = if power < 0 { Some(number / scale) } else { number.checked_mul(scale) };
        let count = number.and_then(|number| u32::try_from(number).ok()).filter(|&count| count <= MAX_COUNT);
        count.ok_or_else(|| QuantityError::Huge(text()))
    }
}

/// A quantity is `digits * factor * 10^power`; `digits` has no zeros at either end.
struct Parts {
    negative: bool,
    digits: String,
    factor: u128,
    power: i64,
}

impl Parts {
    /// Kubernetes' grammar: sign, digits with at most one point, then a suffix or an exponent.
    fn read(text: &str) -> Option<Parts> {
        let negative = text.starts_with('-');
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.len() + fraction.len() == 0 || fraction.contains('.') {
            return None;
        }
        let (factor, power) = scale(suffix)?;
        let all = format!("{whole}{fraction}");
        let short = all.trim_end_matches('0');
        let power = power + (all.len() - short.len()) as i64 - fraction.len() as i64;
        Some(Parts { negative, digits: short.trim_start_matches('0').to_owned(), factor, power })
    }
}

/// What a suffix multiplies with: a factor, and a power of ten.
fn scale(suffix: &str) -> Option<(u128, i64)> {
    let binary = |bits: u32| Some((1u128 << bits, 0));
    let decimal = |power| Some((1, power));
    match suffix {
        "n" => decimal(-9),
        "u" => decimal(-6),
        "m" => decimal(-3),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(10),
        "Mi" => binary(20),
        "Gi" => binary(30),
        "Ti" => binary(40),
        "Pi" => binary(50),
        "Ei" => binary(60),
        _ => decimal(i64::from(suffix.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?)),
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
