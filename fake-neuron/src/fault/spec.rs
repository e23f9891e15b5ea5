//! A fault with its time and its chance, and files of them. Pure but for reading the file. The same JSON stands in files for
//! scripts and in the Node's annotation.

use std::path::Path;
use std::time::Duration;

use serde::de::Error as _;
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use super::time::{duration_text, parse_duration};
use super::{Fault, FaultError};

/// A fault, when it strikes, and how likely. As JSON the fault's own fields with `after`, `for`, `probability` and `seed`:
/// `{"fault": "device-lost", "device": 3, "after": "5s", "for": "10s"}`.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSpec {
    /// What breaks.
    pub fault: Fault,
    /// How long after the start it strikes; zero: at once.
    pub after: Duration,
    /// How long it lasts; `None`: until it is cleared.
    pub lasts: Option<Duration>,
    /// The chance that it strikes at all, 0 to 1; `None`: it does. Drawn once, from `seed` and the fault.
    pub probability: Option<f64>,
    /// What the chance is drawn from; the same seed and fault always give the same.
    pub seed: u64,
}

impl FaultSpec {
    /// The fault at once, for good and for certain.
    pub fn now(fault: Fault) -> FaultSpec {
        FaultSpec { fault, after: Duration::ZERO, lasts: None, probability: None, seed: 0 }
    }

    /// Whether it can be carried out at once and needs nobody who waits.
    pub fn is_immediate(&self) -> bool {
        self.after.is_zero() && self.lasts.is_none()
    }

    /// Whether the draw says that it strikes.
    pub fn strikes(&self) -> bool {
        let Some(probability) = self.probability else { return true };
        // Faults of one seed must not all strike together, so the fault is part of the draw.
        let drawn = mix(hash(&format!("{}/{}", self.seed, self.fault)));
        // 53 bits: all that a double tells apart.
        let share = (drawn >> 11) as f64 / (1_u64 << 53) as f64;
        share < probability
    }

    /// Whether the times and the chance make sense.
    ///
    /// # Errors
    /// A probability that is none, a duration below a millisecond, or one for what happens once.
    pub fn check(&self) -> Result<(), FaultError> {
        if let Some(probability) = self.probability
            && !(0.0..=1.0).contains(&probability)
        {
            return Err(FaultError::Probability(probability));
        }
        if self.fault.happens_once() && self.lasts.is_some() {
            return Err(FaultError::LastsOnce { fault: self.fault.clone() });
        }
        if self.lasts.is_some_and(|lasts| lasts.as_millis() == 0) {
            return Err(FaultError::LastsNothing { fault: self.fault.clone() });
        }
        Ok(())
    }
}

/// Reads the faults of a JSON list, as in the annotation.
///
/// # Errors
/// The text is no such list, or a fault's time or chance makes no sense.
pub fn parse_faults(text: &str) -> Result<Vec<FaultSpec>, FaultError> {
    let faults: Vec<FaultSpec> = serde_json::from_str(text).map_err(FaultError::Malformed)?;
    faults.iter().try_for_each(FaultSpec::check)?;
    Ok(faults)
}

/// Reads a file of faults: a JSON list.
///
/// # Errors
/// The file cannot be read or is no such list.
pub fn read_faults(path: &Path) -> Result<Vec<FaultSpec>, FaultError> {
    let in_file = |reason: FaultError| FaultError::File { path: path.to_owned(), reason: Box::new(reason) };
    let text = std::fs::read_to_string(path).map_err(|reason| in_file(FaultError::Unreadable(reason)))?;
    parse_faults(&text).map_err(in_file)
}

impl Serialize for FaultSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fault = serde_json::to_value(&self.fault).map_err(serde::ser::Error::custom)?;
        let mut fields = serializer.serialize_map(None)?;
        // First what it is: people read this too.
        fields.serialize_entry("fault", self.fault.name())?;
        for (name, value) in fault.as_object().into_iter().flatten().filter(|(name, _)| *name != "fault") {
            fields.serialize_entry(name, value)?;
        }
        if !self.after.is_zero() {
            fields.serialize_entry("after", &duration_text(self.after))?;
        }
        if let Some(lasts) = self.lasts {
            fields.serialize_entry("for", &duration_text(lasts))?;
        }
        if let Some(probability) = self.probability {
            fields.serialize_entry("probability", &probability)?;
            fields.serialize_entry("seed", &self.seed)?;
        }
        fields.end()
    }
}

impl<'de> Deserialize<'de> for FaultSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<FaultSpec, D::Error> {
        // By hand: serde refuses unknown fields only where it need not share them between two types.
        let mut fields = Map::deserialize(deserializer)?;
        let after = duration(&mut fields, "after")?.unwrap_or_default();
        let lasts = duration(&mut fields, "for")?;
        let probability = field(&mut fields, "probability")?;
        let seed = field(&mut fields, "seed")?.unwrap_or_default();
        let fault = serde_json::from_value(Value::Object(fields)).map_err(D::Error::custom)?;
        Ok(FaultSpec { fault, after, lasts, probability, seed })
    }
}

fn duration<E: serde::de::Error>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<Duration>, E> {
    let text: Option<String> = field(fields, name)?;
    text.map(|text| parse_duration(&text).map_err(|wrong| E::custom(format!("{name}: {wrong}")))).transpose()
}

fn field<T, E>(fields: &mut Map<String, Value>, name: &str) -> Result<Option<T>, E>
where
    T: for<'de> Deserialize<'de>,
    E: serde::de::Error,
{
    let value = fields.remove(name);
    value
        .map(|value| serde_json::from_value(value).map_err(|wrong| E::custom(format!("{name}: {wrong}"))))
        .transpose()
}

/// FNV-1a: the same on every compiler, as a seed promises.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Spreads the hash over all bits (the last step of SplitMix64): FNV alone leaves texts that end alike close together.
fn mix(hash: u64) -> u64 {
    let once = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let twice = (once ^ (once >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    twice ^ (twice >> 31)
}
