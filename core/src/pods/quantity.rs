//! Kubernetes quantities (`resource.Quantity`) as counts of devices or cores: production's only parser of them. Used by
//! [`crate::pod`] and [`crate::request`].

use std::fmt;

use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Number;

/// A quantity as it stands in a manifest: `2`, `"2"`, `"2000m"`, `"2k"`, `"2Ki"`, `"2e0"`.
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

/// The longest text that is read, far longer than any number with one of Kubernetes' suffixes.
const MAX_BYTES: usize = 256;

/// As much as an error quotes of a text, which ends in an event, and of each node that the extender is asked about.
const MAX_QUOTED: usize = 64;

/// The largest power of ten that a `u128` holds.
const MAX_POWER: i64 = 38;

impl Quantity {
    /// The text as it is, or the beginning of one that is too long to be read; [`Quantity::count`] says whether it is a count.
    pub fn new(text: &str) -> Self {
        // One byte more, by which it is known.
        Quantity(text[..text.ceil_char_boundary(MAX_BYTES + 1)].to_owned())
    }

    /// The whole number that the quantity stands for, 0 to [`MAX_COUNT`], in every form that the API server takes.
    ///
    /// # Errors
    /// [`QuantityError`] if the text is no quantity, or one that is negative, not whole or too large.
    pub fn count(&self) -> Result<u32, QuantityError> {
        let text = || match self.0.char_indices().nth(MAX_QUOTED) {
            None => self.0.clone(),
            Some((end, _)) => format!("{}...", &self.0[..end]),
        };
        let parts = Some(&self.0).filter(|text| text.len() <= MAX_BYTES).and_then(|text| Parts::read(text));
        let parts = parts.ok_or_else(|| QuantityError::NotAQuantity(text()))?;
        if parts.digits.is_empty() {
            return Ok(0);
        }
        if parts.is_negative {
            return Err(QuantityError::Negative(text()));
        }
        // A larger power makes every number too large, a smaller one makes every number that a u128 holds fractional.
        let power = parts.power.clamp(-MAX_POWER, MAX_POWER);
        let ten_to_power = 10u128.pow(power.unsigned_abs() as u32);
        let number = parts.digits.parse::<u128>().ok().and_then(|digits| digits.checked_mul(parts.factor));
        let number = match number {
            number if power >= 0 => number.and_then(|number| number.checked_mul(ten_to_power)),
            Some(number) if number.is_multiple_of(ten_to_power) => Some(number / ten_to_power),
            _ => return Err(QuantityError::Fractional(text())),
        };
        let count = number.and_then(|number| u32::try_from(number).ok()).filter(|&count| count <= MAX_COUNT);
        count.ok_or_else(|| QuantityError::Huge(text()))
    }
}

/// A quantity is `digits * factor * 10^power`; `digits` has no zeros at either end.
struct Parts {
    is_negative: bool,
    digits: String,
    factor: u128,
    power: i64,
}

impl Parts {
    /// Kubernetes' grammar: sign, digits with at most one point, then a suffix or an exponent.
    fn read(text: &str) -> Option<Parts> {
        let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
        let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
        let (number, suffix) = unsigned.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        let digits = format!("{whole}{fraction}");
        if digits.is_empty() || fraction.contains('.') {
            return None;
        }
        let (factor, power) = multiplier(suffix)?;
        let short = digits.trim_end_matches('0');
        let zeros = digits.len() - short.len();
        Some(Parts {
            is_negative: text.starts_with('-'),
            digits: short.trim_start_matches('0').to_owned(),
            factor,
            power: power + zeros as i64 - fraction.len() as i64,
        })
    }
}

/// What a suffix multiplies with: a factor, and a power of ten.
fn multiplier(suffix: &str) -> Option<(u128, i64)> {
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

/// Reads a text or a number: manifests have both. Nothing else is looked into, however much there is of it.
impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Form;

        impl Visitor<'_> for Form {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity, which is a text or a number")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity::new(text))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Quantity, E> {
                let number = Number::from_f64(number).ok_or_else(|| E::custom("not a finite number"))?;
                Ok(Quantity(number.to_string()))
            }
        }

        deserializer.deserialize_any(Form)
    }
}
