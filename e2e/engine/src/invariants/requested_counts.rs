//! Whether every running pod has as many devices and cores as its manifest asks for. Part of [`crate::invariants`].

use std::collections::BTreeMap;

use neuron_core::names::Resource;
use neuron_core::pod::PodSpec;
use neuron_core::record::{Allocation, Recorded};
use neuron_core::request::PodRequest;
use serde::Deserialize as _;
use serde_json::Value;

use crate::outcome::{Outcome, PodOutcome};
use crate::scenario::{Scenario, Step};

/// Containers whose record gives them another number than they ask for. That records say what containers see is
/// looked at elsewhere.
pub(crate) fn not_as_asked(scenario: &Scenario, outcome: &Outcome) -> Vec<String> {
    let mut specs = BTreeMap::new();
    applied(&scenario.steps, &mut specs);
    let running = outcome.pods.iter().filter(|(_, pod)| pod.is_running());
    running
        .filter_map(|(name, pod)| Some((name, pod, specs.get(name.as_str())?)))
        .flat_map(|(name, pod, spec)| unlike(name, pod, spec))
        .collect()
}

/// The spec of each applied pod, the last of its name.
fn applied<'a>(steps: &'a [Step], specs: &mut BTreeMap<&'a str, &'a Value>) {
    for step in steps {
        let (manifests, inner) = step.applies();
        for manifest in manifests {
            specs.extend(manifest["metadata"]["name"].as_str().map(|name| (name, &manifest["spec"])));
        }
        applied(inner, specs);
    }
}

fn unlike(name: &str, pod: &PodOutcome, spec: &Value) -> Vec<String> {
    let Ok(request) =
        PodSpec::deserialize(spec).map_err(drop).and_then(|spec| PodRequest::of(&spec).map_err(drop))
    else {
        return vec![format!("pod {name}: runs, though its request cannot be read")];
    };
    let recorded = match Allocation::parse(&pod.annotations) {
        Ok(Some(Recorded::Ours(allocation))) => allocation.containers,
        _ => BTreeMap::new(),
    };
    let mut failures = Vec::new();
    for container in &request.containers {
        let has = recorded.get(&container.name);
        let has = |resource| match (resource, has) {
            (_, None) => 0,
            (Resource::Device, Some(record)) => record.devices.len(),
            (Resource::Core, Some(record)) => record.cores.len(),
        };
        for resource in Resource::ALL {
            let (asks, has, noun) = (container.count(resource), has(resource), resource.noun());
            if asks != has {
                let container = &container.name;
                failures
                    .push(format!("pod {name}: container {container} asks for {asks} {noun}s and has {has}"));
            }
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_with_too_few_cores_is_named() {
        let spec = serde_json::json!({
            "containers": [{"name": "main", "resources": {"limits": {"aws.amazon.com/neuroncore": 2}}}],
        });
        let record = |cores: &str| {
            let text =
                format!(r#"{{"v":1,"node":"n1","lnc":1,"containers":{{"main":{{"cores":[{cores}]}}}}}}"#);
            let annotations = [(neuron_core::names::ALLOCATION.to_owned(), text)].into_iter().collect();
            PodOutcome { phase: "Running".into(), annotations, ..PodOutcome::default() }
        };
        assert_eq!(unlike("p", &record("0,1"), &spec), Vec::<String>::new());
        assert_eq!(unlike("p", &record("0"), &spec), ["pod p: container main asks for 2 cores and has 1"]);
    }
}
