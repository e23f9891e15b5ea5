//! Where scenarios come from: the files embedded in the program, files on disk, and texts. Called by the command line, by
//! [`crate::fuzz`] and by tests.

use std::path::Path;

use serde_json::Value;

use super::expand::{Values, entries, write_out};
use super::{CatalogSource, Scenario, ScenarioError, Step, Tier};

include!(concat!(env!("OUT_DIR"), "/scenario_files.rs"));

/// Every scenario of the suite: tier by tier, in the order of their names.
///
/// # Errors
/// A scenario file that is none; a test sees that there is no such file.
pub fn all(catalog: &CatalogSource) -> Result<Vec<Scenario>, ScenarioError> {
    let mut scenarios = Vec::new();
    for (tier, name, text) in SCENARIO_FILES {
        let parsed = parse(name, text, catalog)?;
        scenarios.extend(parsed.into_iter().map(|scenario| Scenario { tier: *tier, ..scenario }));
    }
    Ok(scenarios)
}

/// Folders whose files are of the fault tier. Those of `endurance`, which take minutes, are no part of the program.
const OF_FAULTS: [&str; 2] = ["faults", "endurance"];

/// The scenarios of a file on disk, which are of the fault tier if the file is in a folder named `faults` or `endurance`, as in
/// `e2e/scenarios/`. They are named after the file.
///
/// # Errors
/// The file cannot be read, or is no scenario.
pub fn read(path: &Path, catalog: &CatalogSource) -> Result<Vec<Scenario>, ScenarioError> {
    let unreadable = |source| ScenarioError::Unreadable { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(unreadable)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let folder = path.parent().and_then(Path::file_name);
    let is_of_faults = folder.is_some_and(|name| OF_FAULTS.iter().any(|known| name == *known));
    let tier = if is_of_faults { Tier::Faults } else { Tier::Placement };
    let in_file =
        |error: ScenarioError| ScenarioError::InFile { path: path.to_owned(), why: error.to_string() };
    let scenarios = parse(&name, &text, catalog).map_err(in_file)?;
    Ok(scenarios.into_iter().map(|scenario| Scenario { tier, ..scenario }).collect())
}

/// The scenarios of one file's text: several if it says `for_each`. All are of the placement tier.
///
/// # Errors
/// The text is no scenario: what of it is wrong.
pub fn parse(name: &str, text: &str, catalog: &CatalogSource) -> Result<Vec<Scenario>, ScenarioError> {
    let malformed = |name: &str, why: String| ScenarioError::Malformed { name: name.to_owned(), why };
    let value: Value = serde_saphyr::from_str(text).map_err(|error| malformed(name, error.to_string()))?;
    let Value::Object(mut file) = value else {
        return Err(malformed(name, "the file is not a mapping".into()));
    };
    let entries = entries(name, file.remove("for_each"), catalog.types())?;
    let scenario = |(name, values): (String, Values)| {
        let written_out = write_out(&name, Value::Object(file.clone()), &values)?;
        let scenario: Scenario =
            serde_json::from_value(written_out).map_err(|error| malformed(&name, error.to_string()))?;
        let churns = scenario.steps.iter().filter_map(|step| match step {
            Step::Churn(churn) => churn.wrong_name(),
            _ => None,
        });
        if let Some(why) = churns.into_iter().next() {
            return Err(malformed(&name, why));
        }
        match scenario.nodes.len() {
            1..=3 => Ok(Scenario { name, catalog: catalog.clone(), ..scenario }),
            nodes => Err(malformed(&name, format!("{nodes} nodes; a scenario has one to three"))),
        }
    };
    entries.into_iter().map(scenario).collect()
}
