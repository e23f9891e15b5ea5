//! The plain case: resources whose every id is a device of its own, asked for by pods of one container. The defaults of
//! [`Suite`](crate::suite::Suite) are made of it.

use std::collections::BTreeMap;
use std::time::Duration;

use fake_cluster::kubelet::{ContainerRun, ContainerStart};
use serde_json::{Value, json};
use simulator::random::Rng;

use crate::units::Units;

/// Begins the argument of [`one_container`] that says how long it runs.
const RUNS_FOR: &str = "--for=";

/// A resource of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    /// Its name, such as `example.com/device`.
    pub name: String,
    /// The ids that its device plugin lists, each a device of its own. Devices are numbered through all resources of a node,
    /// from 0, and a device is one unit.
    pub ids: Vec<String>,
}

impl Resource {
    /// A resource with these ids.
    pub fn new<I: Into<String>>(name: impl Into<String>, ids: impl IntoIterator<Item = I>) -> Self {
        Self { name: name.into(), ids: ids.into_iter().map(Into::into).collect() }
    }
}

/// A pod with one container of these limits, such as `{"example.com/device": "2"}`, which ends with exit code 0 after so many
/// seconds, or never. [`container_run`] reads what is written into it.
pub fn one_container(limits: Value, ends_after: Option<u32>) -> Value {
    let args: Vec<String> = ends_after.iter().map(|seconds| format!("{RUNS_FOR}{seconds}s")).collect();
    let main = json!({"name": "main", "image": "none", "args": args, "resources": {"limits": limits}});
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {"containers": [main], "restartPolicy": "Never"},
    })
}

/// What a container of [`one_container`] does. One in four takes all the grace that it is given at its end.
pub fn container_run(start: &ContainerStart) -> ContainerRun {
    let seconds =
        start.args.iter().find_map(|arg| arg.strip_prefix(RUNS_FOR)?.strip_suffix('s')?.parse().ok());
    let stubborn = simulator::random::hash(start.pod_uid.as_bytes()).is_multiple_of(4);
    ContainerRun {
        ends: seconds.map(|seconds| (Duration::from_secs(seconds), 0)),
        termination: if stubborn { Duration::MAX } else { Duration::ZERO },
        ..ContainerRun::default()
    }
}

/// The units of ids of a resource.
///
/// # Errors
/// An id that the resource does not have; the text names it.
pub fn units_of_ids<'a>(
    resources: &[Resource],
    resource: &str,
    ids: impl IntoIterator<Item = &'a str>,
) -> Result<Units, String> {
    let all =
        resources.iter().flat_map(|resource| resource.ids.iter().map(|id| (resource.name.as_str(), id)));
    let numbers: BTreeMap<(&str, &str), u32> =
        all.zip(0..).map(|((name, id), number)| ((name, id.as_str()), number)).collect();
    let number = |id| {
        let number = numbers.get(&(resource, id)).copied();
        number.ok_or_else(|| format!("{id} is no id of {resource}"))
    };
    ids.into_iter().map(number).collect()
}

/// A pod of one container that asks for some of one resource of the node, few more often than many.
pub(crate) fn pod(draws: &mut Rng, resources: &[Resource], ends_after: Option<u32>) -> Value {
    let Some(resource) = draws.choice(resources) else { return one_container(json!({}), ends_after) };
    let most = draws.usize(1..=resource.ids.len().max(1));
    let count = draws.usize(1..=most);
    one_container(json!({&resource.name: count.to_string()}), ends_after)
}

/// Whether enough of each resource is free for all of a pod's containers. It does not know of pods with init containers.
pub(crate) fn can_run(resources: &[Resource], pod: &Value, held: &Units) -> Option<bool> {
    let is_enough = |(resource, free): (&Resource, usize)| free >= asked(pod, &resource.name);
    let inits = pod.pointer("/spec/initContainers").and_then(Value::as_array);
    inits.is_none_or(Vec::is_empty).then(|| without(resources, held).all(is_enough))
}

/// Whether kube-scheduler's count leaves room for a pod beside those that live: of what is not broken all that they ask for is taken,
/// though what they have may be broken, too.
pub(crate) fn counts_allow(resources: &[Resource], live: &[&Value], pod: &Value, broken: &Units) -> bool {
    without(resources, broken).all(|(resource, healthy)| {
        let own = asked(pod, &resource.name);
        let others: usize = live.iter().map(|other| asked(other, &resource.name)).sum();
        own == 0 || own + others <= healthy
    })
}

/// Each resource, with how many of its devices are not among these units.
fn without<'a>(resources: &'a [Resource], units: &'a Units) -> impl Iterator<Item = (&'a Resource, usize)> {
    let mut number = 0..;
    resources.iter().map(move |resource| {
        let others = number.by_ref().take(resource.ids.len()).filter(|unit| !units.contains(unit));
        (resource, others.count())
    })
}

/// How many of a resource a pod's containers ask for together.
fn asked(pod: &Value, name: &str) -> usize {
    let containers = pod.pointer("/spec/containers").and_then(Value::as_array).into_iter().flatten();
    let limit = |container: &Value| {
        let limits = container.pointer("/resources/limits")?;
        limits.get(name)?.as_str()?.parse::<usize>().ok()
    };
    containers.filter_map(limit).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resources() -> [Resource; 2] {
        [Resource::new("example.com/a", ["a0", "a1"]), Resource::new("example.com/b", ["b0", "b1", "b2"])]
    }

    #[test]
    fn devices_are_numbered_through_all_resources() {
        assert_eq!(units_of_ids(&resources(), "example.com/b", ["b2", "b0"]), Ok(Units::from([2, 4])));
        let wrong = units_of_ids(&resources(), "example.com/a", ["b0"]);
        assert_eq!(wrong, Err("b0 is no id of example.com/a".to_owned()));
    }

    #[test]
    fn a_pod_can_run_where_enough_of_what_it_asks_for_is_free() {
        let pod = one_container(json!({"example.com/b": "2"}), None);
        let held = |units: &[u32]| units.iter().copied().collect::<Units>();
        assert_eq!(can_run(&resources(), &pod, &held(&[0, 1, 3])), Some(true));
        assert_eq!(can_run(&resources(), &pod, &held(&[3, 4])), Some(false));
        assert_eq!(can_run(&[], &one_container(json!({}), None), &held(&[])), Some(true));
        let mut with_init = pod;
        with_init["spec"]["initContainers"] = json!([{"name": "init"}]);
        assert_eq!(can_run(&resources(), &with_init, &held(&[])), None);
    }

    #[test]
    fn a_pod_that_holds_a_broken_device_is_counted_beside_it() {
        let pod = |count: &str| one_container(json!({"example.com/b": count}), None);
        let (live, asks) = (pod("1"), pod("1"));
        let allow =
            |broken: &[u32]| counts_allow(&resources(), &[&live], &asks, &broken.iter().copied().collect());
        assert!(allow(&[]) && allow(&[2]), "one of three broken, one asked for by another pod");
        assert!(!allow(&[2, 3]));
        assert!(allow(&[0, 1]), "of another resource");
        let nothing = one_container(json!({}), None);
        assert!(counts_allow(&resources(), &[&live], &nothing, &Units::from([2, 3, 4])), "it asks for none");
    }

    #[test]
    fn a_drawn_pod_asks_for_what_the_node_has_and_ends_in_its_time() {
        let mut draws = Rng::with_seed(1);
        for _ in 0..100 {
            let drawn = pod(&mut draws, &resources(), Some(7));
            assert_eq!(can_run(&resources(), &drawn, &Units::new()), Some(true));
        }
        let args = pod(&mut draws, &resources(), Some(7))["spec"]["containers"][0]["args"].clone();
        let start = ContainerStart { args: serde_json::from_value(args).unwrap(), ..started() };
        assert_eq!(container_run(&start).ends, Some((Duration::from_secs(7), 0)));
        assert_eq!(container_run(&started()).ends, None);
    }

    fn started() -> ContainerStart {
        let empty = json!({"pod_namespace": "default", "pod_name": "p", "pod_uid": "u", "container": "main", "args": [],
            "env": {}, "devices": [], "annotations": {}, "ids": {}});
        serde_json::from_value(empty).unwrap()
    }
}
