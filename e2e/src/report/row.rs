//! What came of one scenario on one cluster: a line of the table, an element of the JSON. Made by whoever runs scenarios.

use neuron_e2e_engine::outcome::Outcome;
use neuron_e2e_engine::run::Finished;
use neuron_e2e_engine::scenario::Scenario;
use serde::Serialize;

/// One line of the table, one element of the JSON.
#[derive(Debug, Serialize)]
pub struct Row {
    /// The scenario's name.
    pub scenario: String,
    /// The cluster it ran on and the scheduler; none for the embedded cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    /// The Kubernetes that ran it: a cluster's release, such as `v1.37.2`. None where there was no cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// What it shows.
    pub about: String,
    /// The instance types of n1, n2, n3.
    pub nodes: Vec<String>,
    /// Whether everything was as it must be.
    pub passed: bool,
    /// What was not, one sentence each.
    pub failures: Vec<String>,
    /// Why it was not run on this cluster; none if it was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Why no cluster could be prepared for it, so that it was not run; none if one was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_prepared: Option<String>,
    /// Wall time in seconds.
    pub seconds: f64,
    /// The outcome document; none if the scenario did not come to its end.
    pub outcome: Option<Outcome>,
}

impl Row {
    /// The row of a scenario that was run.
    pub fn new(scenario: &Scenario, result: anyhow::Result<Finished>, seconds: f64) -> Self {
        let (outcome, failures) = match result {
            Ok(finished) => (Some(finished.outcome), finished.failures),
            Err(error) => (None, vec![format!("{error:#}")]),
        };
        Row {
            scenario: scenario.name.clone(),
            cluster: None,
            kubernetes: None,
            about: scenario.about.clone(),
            nodes: scenario.nodes.iter().map(|node| node.instance_type.clone()).collect(),
            passed: failures.is_empty(),
            failures,
            skipped: None,
            not_prepared: None,
            seconds,
            outcome,
        }
    }

    /// The row of a scenario that this cluster cannot run, and why.
    pub fn skipped(scenario: &Scenario, why: String) -> Self {
        let nothing = anyhow::anyhow!("not run");
        Row { failures: Vec::new(), skipped: Some(why), ..Row::new(scenario, Err(nothing), 0.0) }
    }

    /// The row of a scenario that no cluster could be prepared for, and why.
    pub fn not_prepared(scenario: &Scenario, why: String, seconds: f64) -> Self {
        let row = Row::skipped(scenario, String::new());
        Row { skipped: None, not_prepared: Some(why), seconds, ..row }
    }

    /// Has the row fail for what was found wrong after its scenario, if anything was, also where that passed or was skipped.
    pub fn add_failures(&mut self, found: Vec<String>) {
        if found.is_empty() {
            return;
        }
        (self.passed, self.skipped) = (false, None);
        self.failures.extend(self.not_prepared.take().into_iter().chain(found));
    }

    /// Whether it was run and something was not as it must be.
    pub fn failed(&self) -> bool {
        !self.passed && self.skipped.is_none() && self.not_prepared.is_none()
    }

    /// What became of it, in a word or two.
    pub fn word(&self) -> &'static str {
        match self {
            Row { skipped: Some(_), .. } => "skipped",
            Row { not_prepared: Some(_), .. } => "NOT PREPARED",
            Row { passed: true, .. } => "passed",
            Row { passed: false, .. } => "FAILED",
        }
    }

    /// What was not as it must be, of the scenario or of its preparation.
    pub fn wrong(&self) -> impl Iterator<Item = &str> {
        self.failures.iter().chain(&self.not_prepared).map(String::as_str)
    }
}
