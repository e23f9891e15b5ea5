//! Writes scenario files out: `for_each` makes several scenarios of one file, `repeat` several steps of one. Called by
//! [`super::library`] before a file's fields are read.

use std::collections::BTreeMap;

use neuron_core::catalog::Catalog;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ScenarioError;

/// What `${name}` stands for.
pub(super) type Values = BTreeMap<String, String>;

/// The `for_each` of a file: one scenario for each entry.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum ForEach {
    /// `every` type of the catalog, or those listed. Defines `${type}`, and at the type's default LNC
    /// `${devices}` and `${cores}`, the node's totals.
    Type(Types),
    /// Parts that can be restarted. Defines `${part}`.
    Part(Vec<String>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Types {
    Every(Every),
    Listed(Vec<String>),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Every {
    Every,
}

/// The names of a file's scenarios and what each defines, by its `for_each`; one scenario with the file's name where it has
/// none.
pub(super) fn entries(
    file: &str,
    for_each: Option<Value>,
    catalog: &Catalog,
) -> Result<Vec<(String, Values)>, ScenarioError> {
    let Some(for_each) = for_each else { return Ok(vec![(file.to_owned(), Values::new())]) };
    let for_each = serde_json::from_value::<ForEach>(for_each);
    let malformed = |error: serde_json::Error| ScenarioError::Malformed {
        name: file.to_owned(),
        why: format!("for_each: {error}"),
    };
    Ok(for_each.map_err(malformed)?.entries(file, catalog))
}

impl ForEach {
    fn entries(self, file: &str, catalog: &Catalog) -> Vec<(String, Values)> {
        let types: Vec<String> = match self {
            ForEach::Type(Types::Every(Every::Every)) => {
                catalog.types().iter().map(|known| known.name.clone()).collect()
            }
            ForEach::Type(Types::Listed(types)) => types,
            ForEach::Part(parts) => {
                let values = |part: &String| Values::from([("part".to_owned(), part.clone())]);
                return parts.iter().map(|part| (format!("{file}/{part}"), values(part))).collect();
            }
        };
        let entry = |name: String| {
            let mut values = Values::from([("type".to_owned(), name.clone())]);
            if let Some(known) = catalog.find(&name) {
                let cores = u32::from(known.devices) * u32::from(known.cores_per_device / known.default_lnc);
                values.insert("devices".into(), known.devices.to_string());
                values.insert("cores".into(), cores.to_string());
            }
            (format!("{file}/{name}"), values)
        };
        types.into_iter().map(entry).collect()
    }
}

/// Replaces `${name}` in every text, and each `{repeat: {name: [..]}, steps: [..]}` of a list by its steps; a number in
/// place of the list counts from 1.
pub(super) fn write_out(scenario: &str, value: Value, values: &Values) -> Result<Value, ScenarioError> {
    Ok(match value {
        Value::String(text) => Value::String(substitute(scenario, &text, values)?),
        Value::Array(items) => {
            let mut out = Vec::new();
            for item in items {
                match repeated(&item) {
                    None => out.push(write_out(scenario, item, values)?),
                    Some((name, each, steps)) => {
                        for one in each {
                            let mut values = values.clone();
                            values.insert(name.clone(), one);
                            for step in &steps {
                                out.push(write_out(scenario, step.clone(), &values)?);
                            }
                        }
                    }
                }
            }
            Value::Array(out)
        }
        Value::Object(fields) => {
            let mut out = Map::new();
            for (key, field) in fields {
                out.insert(substitute(scenario, &key, values)?, write_out(scenario, field, values)?);
            }
            Value::Object(out)
        }
        other => other,
    })
}

/// The parts of a `repeat` item, if it is one.
fn repeated(item: &Value) -> Option<(String, Vec<String>, Vec<Value>)> {
    let fields = item.as_object().filter(|fields| fields.len() == 2)?;
    let (name, each) = fields.get("repeat")?.as_object().filter(|each| each.len() == 1)?.iter().next()?;
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let each = match each {
        Value::Number(count) => (1..=count.as_u64()?).map(|number| number.to_string()).collect(),
        each => each.as_array()?.iter().map(text).collect(),
    };
    Some((name.clone(), each, fields.get("steps")?.as_array()?.clone()))
}

fn substitute(scenario: &str, text: &str, values: &Values) -> Result<String, ScenarioError> {
    let mut out = text.to_owned();
    for (name, value) in values {
        out = out.replace(&format!("${{{name}}}"), value);
    }
    match out.contains("${") {
        true => Err(ScenarioError::Undefined { name: scenario.to_owned(), text: text.to_owned() }),
        false => Ok(out),
    }
}
