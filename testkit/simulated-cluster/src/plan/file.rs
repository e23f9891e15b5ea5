//! Plans as JSON: what is wrong with one, and what would be right.

use fake_cluster::Version;
use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{ApiRates, Event, PLAN_VERSION, Place, Plan, What};

/// A plan that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// It is not the JSON of a plan.
    #[error("this is no plan")]
    NotAPlan(#[from] serde_json::Error),
    /// Another release has written it.
    #[error("this plan is of version {found}; this release runs version {PLAN_VERSION}")]
    Version {
        /// The plan's version.
        found: u64,
    },
    /// It asks for what cannot be.
    #[error("{0}")]
    Impossible(String),
}

/// The longest simulated time, in seconds: clocks and times of objects are of the years that people count.
const LONGEST: u64 = 3650 * 86_400;
/// The most nodes: more would run out of addresses, and of memory long before.
const MOST_NODES: usize = 5000;

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    /// It is none, of another version, or asks for what cannot be.
    pub fn parse(text: &str) -> Result<Self, PlanError> {
        let value: Value = serde_json::from_str(text)?;
        if let Some(found) = value.get("v").and_then(Value::as_u64)
            && found != u64::from(PLAN_VERSION)
        {
            return Err(PlanError::Version { found });
        }
        // From the text, which has lines to name.
        let plan: Plan = serde_json::from_str(text)?;
        match plan.problem().or_else(|| plan.unknown_field(&value)) {
            Some(problem) => Err(PlanError::Impossible(problem)),
            None => Ok(plan),
        }
    }

    /// The plan as a file, which [`Plan::parse`] reads: an event a line, so that two plans can be compared.
    pub fn to_text(&self) -> String {
        let events: Vec<String> = self
            .events
            .iter()
            .map(|event| format!("    {}", serde_json::to_string(event).unwrap_or_default()))
            .collect();
        let head = Plan { events: Vec::new(), ..self.clone() };
        let head = serde_json::to_string_pretty(&head).unwrap_or_default();
        let without_end = head.strip_suffix("[]\n}").unwrap_or(&head);
        if events.is_empty() {
            return format!("{head}\n");
        }
        format!("{without_end}[\n{}\n  ]\n}}\n", events.join(",\n"))
    }

    /// What is wrong with it whatever is simulated, if anything is.
    pub fn problem(&self) -> Option<String> {
        if self.nodes.is_empty() {
            return Some("a plan needs at least one node".to_owned());
        }
        if self.nodes.len() > MOST_NODES {
            return Some(format!("a plan has at most {MOST_NODES} nodes; there are {}", self.nodes.len()));
        }
        if let Err(unknown) = self.kubernetes.parse::<Version>() {
            return Some(format!("kubernetes: {unknown}"));
        }
        if self.seconds == 0 {
            return Some("a plan runs for at least one second; seconds is 0".to_owned());
        }
        if self.seconds > LONGEST {
            let days = LONGEST / 86_400;
            return Some(format!("a plan runs for {days} days at most; seconds is {}", self.seconds));
        }
        if let Some((part, _)) = self.kills.iter().find(|(_, poll)| *poll == 0) {
            return Some(format!("kills: {part} has no poll 0; polls are counted from 1"));
        }
        let mut events = self.events.iter();
        self.settings
            .problem()
            .or_else(|| events.find_map(|event| self.problem_of(event)))
            .or_else(|| self.problem_of_order())
    }

    fn problem_of_order(&self) -> Option<String> {
        let mut pairs = self.events.iter().zip(self.events.iter().skip(1));
        let (before, after) = pairs.find(|(before, after)| before.at > after.at)?;
        Some(format!(
            "event at {}: it stands after the one at {}; events are in the order of their times",
            after.at, before.at
        ))
    }

    /// A field of an event that there is not: serde takes any where fields are flattened. `written` is the plan as it was read.
    fn unknown_field(&self, written: &Value) -> Option<String> {
        let written = written.get("events")?.as_array()?;
        self.events.iter().zip(written).find_map(|(event, written)| {
            // What is written again has every field that there is.
            let known = serde_json::to_value(event).ok()?;
            let known = known.as_object()?;
            let wrong = written.as_object()?.keys().find(|field| !known.contains_key(*field))?;
            let all: Vec<&str> = known.keys().map(String::as_str).collect();
            Some(format!("event at {}: it has no {wrong:?}; there is {}", event.at, all.join(", ")))
        })
    }

    fn problem_of(&self, event: &Event) -> Option<String> {
        let at = event.at;
        let no_node = |place: usize| {
            (place >= self.nodes.len())
                .then(|| format!("event at {at}: there is no node {place}; there are {}", self.nodes.len()))
        };
        let no_place = |place: &Place| match place {
            Place::Node(place) => no_node(*place),
            Place::ApiServer | Place::Scheduler | Place::Control | Place::SecondControl => None,
        };
        match &event.what {
            What::Kill { on, .. }
            | What::Stop { on, .. }
            | What::Freeze { on, .. }
            | What::Away { on, .. }
            | What::Second { on, .. }
            | What::Skew { on, .. }
            | What::CacheBehind { on, .. }
            | What::WatchLag { on, .. } => no_place(on),
            What::Cut { from, to, .. } => no_place(from).or_else(|| no_place(to)),
            What::ForeignList { node }
            | What::CheckpointLost { node }
            | What::SocketsReset { node }
            | What::CheckpointGarbled { node }
            | What::CheckpointOlder { node, .. }
            | What::PluginFilesRemoved { node }
            | What::CheckpointUnwritable { node, .. }
            | What::CheckpointUnreadable { node, .. }
            | What::PreferencesIgnored { node, .. }
            | What::PowerLoss { node, .. }
            | What::ReplaceNode { node, .. }
            | What::Device { node, .. }
            | What::Machine { node, .. }
            | What::Edit { node, .. } => no_node(*node),
            What::ApiFaults { rates, .. } | What::ClusterApiFaults { rates, .. } => wrong_rate(at, rates),
            What::Create { pods } => pods.iter().find_map(|pod| no_pod(at, pod, true)),
            What::Job { pod, .. } | What::StatefulSet { pod, .. } => no_pod(at, pod, false),
            What::Delete { .. }
            | What::DeleteOwner { .. }
            | What::ApiDown { .. }
            | What::Compact
            | What::EditPod { .. }
            | What::Rest { .. } => None,
        }
    }
}

/// What is wrong with a pod's manifest, if anything is: one that the API server would not take would only be missing. Controllers give
/// their pods names.
fn no_pod(at: u64, manifest: &Value, needs_name: bool) -> Option<String> {
    let name = manifest.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
    let problem = match serde_json::from_value::<Pod>(manifest.clone()) {
        Err(error) => error.to_string(),
        Ok(_) if needs_name && name.is_empty() => "it has no metadata.name".to_owned(),
        Ok(pod) if pod.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) => {
            "it has no container".to_owned()
        }
        Ok(_) => return None,
    };
    let name = if name.is_empty() { String::new() } else { format!(" {name:?}") };
    Some(format!("event at {at}: this is no pod{name}: {problem}"))
}

fn wrong_rate(at: u64, rates: &ApiRates) -> Option<String> {
    let wrong = rates.named().into_iter().find(|(_, rate)| !(0.0..=1.0).contains(rate));
    wrong.map(|(name, rate)| format!("event at {at}: {name} is {rate}; a rate is 0 to 1"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::plan::{NodePlan, Settings};

    fn plan(events: Vec<Event>) -> Plan {
        Plan {
            v: PLAN_VERSION,
            seed: 7,
            kubernetes: "1.37".to_owned(),
            seconds: 3600,
            nodes: vec![NodePlan { machine: "m".to_owned() }],
            settings: Settings::default(),
            kills: vec![("extender".to_owned(), 1234)],
            events,
        }
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let events = vec![
            Event {
                at: 5,
                what: What::Create {
                    pods: vec![json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})],
                },
            },
            Event {
                at: 9,
                what: What::Kill { part: "kubelet".to_owned(), on: Place::Node(0), after_polls: None },
            },
            Event { at: 10, what: What::Compact },
        ];
        for plan in [plan(events), plan(Vec::new())] {
            assert_eq!(Plan::parse(&plan.to_text()).unwrap(), plan, "{}", plan.to_text());
        }
    }

    #[test]
    fn what_cannot_be_is_told() {
        let rates = ApiRates { lost: 1.5, ..ApiRates::default() };
        let wrong = [
            (
                Event { at: 1, what: What::ApiFaults { rates, seconds: 1 } },
                "event at 1: lost is 1.5; a rate is 0 to 1",
            ),
            (
                Event { at: 2, what: What::PowerLoss { node: 1, seconds: Some(1) } },
                "event at 2: there is no node 1; there are 1",
            ),
            (
                Event { at: 3, what: What::Create { pods: vec![json!({"metadata": {"name": "p"}})] } },
                "event at 3: this is no pod \"p\": it has no container",
            ),
            (
                Event {
                    at: 4,
                    what: What::Create { pods: vec![json!({"spec": {"containers": [{"name": "c"}]}})] },
                },
                "event at 4: this is no pod: it has no metadata.name",
            ),
        ];
        for (event, told) in wrong {
            assert_eq!(Plan::parse(&plan(vec![event]).to_text()).unwrap_err().to_string(), told);
        }
        let number = Event { at: 5, what: What::Create { pods: vec![json!(42)] } };
        let told = Plan::parse(&plan(vec![number]).to_text()).unwrap_err().to_string();
        assert!(told.starts_with("event at 5: this is no pod: invalid type: integer `42`"), "{told}");
        let compact = |at| Event { at, what: What::Compact };
        let order = plan(vec![compact(5), compact(3)]);
        let told = "event at 3: it stands after the one at 5; events are in the order of their times";
        assert_eq!(Plan::parse(&order.to_text()).unwrap_err().to_string(), told);
        let poll = Plan { kills: vec![("extender".to_owned(), 0)], ..plan(Vec::new()) };
        let told = "kills: extender has no poll 0; polls are counted from 1";
        assert_eq!(Plan::parse(&poll.to_text()).unwrap_err().to_string(), told);
        let newer = plan(Vec::new()).to_text().replace("\"v\": 2", "\"v\": 3");
        let told = Plan::parse(&newer).unwrap_err().to_string();
        assert_eq!(told, "this plan is of version 3; this release runs version 2");
        let none = Plan { seconds: 0, ..plan(Vec::new()) };
        assert!(Plan::parse(&none.to_text()).unwrap_err().to_string().ends_with("seconds is 0"));
        let nodes = vec![plan(Vec::new()).nodes[0].clone(); MOST_NODES + 1];
        let told = Plan::parse(&Plan { nodes, ..plan(Vec::new()) }.to_text()).unwrap_err().to_string();
        assert_eq!(told, "a plan has at most 5000 nodes; there are 5001");
        let newest = Plan { kubernetes: "1.99".to_owned(), ..plan(Vec::new()) };
        let told = Plan::parse(&newest.to_text()).unwrap_err().to_string();
        assert!(told.starts_with("kubernetes: ") && told.contains("1.99"), "{told}");
        let long = Plan { seconds: u64::MAX, ..plan(Vec::new()) };
        let told = Plan::parse(&long.to_text()).unwrap_err().to_string();
        assert_eq!(told, "a plan runs for 3650 days at most; seconds is 18446744073709551615");
        assert!(Plan::parse("{").is_err());
    }

    #[test]
    fn a_field_that_there_is_not_is_told() {
        let off = What::PowerLoss { node: 0, seconds: Some(1) };
        let events = vec![Event { at: 2, what: What::Compact }, Event { at: 3, what: off }];
        let right = plan(events).to_text();
        for (from, to, told) in [
            (
                "\"node\":0",
                "\"node\":0,\"nod\":1",
                "event at 3: it has no \"nod\"; there is at, do, node, seconds",
            ),
            ("\"at\":2", "\"at\":2,\"node\":1", "event at 2: it has no \"node\"; there is at, do"),
        ] {
            let wrong = right.replace(from, to);
            assert_eq!(Plan::parse(&wrong).unwrap_err().to_string(), told);
        }
    }
}
