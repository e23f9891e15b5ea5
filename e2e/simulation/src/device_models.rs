//! Which nodes a pod's annotation `neuron-scheduler/device-model` lets it run on, by the documentation (docs/deploy.md), not by `core`.
//! Asked by `naive`, `reasons` and `pods`.

use neuron_core::names::DEVICE_MODEL;
use serde_json::Value;

use crate::machine::Machine;

/// The generations, by the beginning of their instance types' names.
pub(crate) const GENERATIONS: [(&str, &str); 5] = [
    ("Inferentia", "inf1"),
    ("Inferentia2", "inf2"),
    ("Trainium", "trn1"),
    ("Trainium2", "trn2"),
    ("Trainium3", "trn3"),
];

/// The generation of an instance type.
pub(crate) fn generation_of(instance_type: &str) -> Option<&'static str> {
    let of = |(_, beginning): &&(_, &str)| instance_type.starts_with(beginning);
    GENERATIONS.iter().find(of).map(|(name, _)| *name)
}

/// The models that a pod's author has written, one after the other. None if there is no annotation.
pub(crate) fn wanted(pod: &Value) -> Option<Vec<&str>> {
    let text = pod.pointer("/metadata/annotations")?.get(DEVICE_MODEL)?.as_str()?;
    Some(text.split(',').map(str::trim).collect())
}

/// Whether the pod may run on such a machine.
pub(crate) fn may_run_on(pod: &Value, machine: &Machine) -> bool {
    let own = &machine.model.name;
    let is_own = |model: &str| model == own || generation_of(own) == Some(model);
    wanted(pod).is_none_or(|models| {
        models.iter().all(|model| is_model(model)) && models.iter().any(|model| is_own(model))
    })
}

/// Whether there is such a model: a generation, or a type of one.
pub(crate) fn is_model(word: &str) -> bool {
    let is_generation = GENERATIONS.iter().any(|(name, _)| *name == word);
    is_generation || word.contains(".") && generation_of(word).is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use simulated_cluster::plan::NodePlan;

    use super::*;

    #[test]
    fn a_pod_runs_on_nodes_of_its_models() {
        let machine = Machine::of(&NodePlan { machine: "trn1.32xlarge".to_owned() }).unwrap();
        for (text, may) in [
            ("Trainium", true),
            ("Inferentia2, trn1.32xlarge", true),
            ("Trainium2", false),
            ("trn1.2xlarge", false),
            ("Trainium,Trainium-ultra", false),
        ] {
            let pod = json!({"metadata": {"annotations": {DEVICE_MODEL: text}}});
            assert_eq!(may_run_on(&pod, &machine), may, "{text}");
        }
        assert!(may_run_on(&json!({"metadata": {}}), &machine));
    }
}
