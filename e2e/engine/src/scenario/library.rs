//! The scenario files, embedded in the program, and their writing-out: `for_each` makes several scenarios of one
//! file, `repeat` several steps of one. Called by the command line and by the tests.

use std::collections::BTreeMap;

use neuron_core::catalog::Catalog;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::scenario::{Scenario, Tier};

include!(concat!(env!("OUT_DIR"), "/scenario_files.rs"));

/// Why a scenario file is not a scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Not YAML, or not of a scenario's form.
    #[error("scenario {name}: {why}")]
    Malformed {
        /// File name without `.yaml`, with the entry of `for_each`.
        name: String,
        /// What the parser says.
        why: String,
    },
    /// A `${...}` that nothing defines.
    #[error("scenario {name}: {text:?} names a value that for_each and repeat do not define")]
    Undefined {
        /// The scenario.
        name: String,
        /// The text that holds it.
        text: String,
    },
}

/// Every scenario of the suite: tier by tier, in the order of their names.
pub fn all() -> Result<Vec<Scenario>, ScenarioError> {
    let mut scenarios = Vec::new();
    for (tier, name, text) in SCENARIO_FILES {
        let parsed = parse(name, text)?;
        scenarios.extend(parsed.into_iter().map(|scenario| Scenario { tier: *tier, ..scenario }));
    }
    Ok(scenarios)
}

/// The scenarios of one file.
pub fn parse(name: &str, text: &str) -> Result<Vec<Scenario>, ScenarioError> {
    let malformed = |name: &str, why: String| ScenarioError::Malformed { name: name.to_owned(), why };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| malformed(name, error.to_string()))?;
    let Value::Object(mut file) = value else {
        return Err(malformed(name, "the file is not a mapping".into()));
    };
    let entries = match file.remove("for_each") {
        None => vec![(name.to_owned(), Values::new())],
        Some(value) => {
            let each: ForEach =
                serde_json::from_value(value).map_err(|error| malformed(name, error.to_string()))?;
            each.entries(name)
        }
    };
    entries
        .into_iter()
        .map(|(name, values)| {
            let written_out = write_out(&name, Value::Object(file.clone()), &values)?;
            let mut scenario: Scenario =
                serde_json::from_value(written_out).map_err(|error| malformed(&name, error.to_string()))?;
            if scenario.nodes.is_empty() || scenario.nodes.len() > 3 {
                return Err(malformed(
                    &name,
                    format!("{} nodes; a scenario has one to three", scenario.nodes.len()),
                ));
            }
            scenario.name = name;
            Ok(scenario)
        })
        .collect()
}

/// What `${name}` stands for.
type Values = BTreeMap<String, String>;

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

impl ForEach {
    fn entries(self, file: &str) -> Vec<(String, Values)> {
        let catalog = Catalog::embedded();
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
fn write_out(scenario: &str, value: Value, values: &Values) -> Result<Value, ScenarioError> {
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
