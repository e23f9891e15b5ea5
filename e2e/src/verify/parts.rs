//! Whether the suite's parts are there and ready. They are known by their images' names, whatever the installer calls the
//! pods and wherever they run.

use anyhow::{bail, ensure};
use k8s_openapi::api::core::v1::Pod;
use kind_driver::status::is_ready;

use super::Listed;
use super::check::{Check, Checks};

/// The scheduler that every cluster has, hidden on managed control planes.
const DEFAULT_SCHEDULER: &str = "default-scheduler";
/// The extender's and the device plugin's images, without registry and tag.
const EXTENDER: &str = "neuron-extender";
pub(super) const PLUGIN: &str = "neuron-device-plugin";
const KUBE_SCHEDULER: &str = "kube-scheduler";

pub(super) fn check(listed: &Listed, scheduler: &str, checks: &mut Checks<impl Fn(&Check)>) {
    checks.add("extender", ready("the extender", pods_of(listed, EXTENDER)));
    checks.add("device plugin", ready("the device plugin", pods_of(listed, PLUGIN)));
    let name = format!("scheduler {scheduler}");
    let is_meant = |pod: &&Pod| pod.metadata.name.as_deref().is_some_and(|name| name.starts_with(scheduler));
    if scheduler == DEFAULT_SCHEDULER {
        checks.not_applicable(
            name,
            "it is the cluster's own; the pods below show whether it asks the extender",
        );
    } else {
        checks.add(
            name,
            ready(&format!("scheduler {scheduler}"), pods_of(listed, KUBE_SCHEDULER).filter(is_meant)),
        );
    }
}

/// The pods of which a container has this image.
pub(super) fn pods_of<'a>(listed: &'a Listed, image: &'a str) -> impl Iterator<Item = &'a Pod> {
    listed.pods.iter().filter(move |pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.into_iter().any(|one| one.image.as_deref().is_some_and(|full| name_of(full) == image))
    })
}

/// `registry.example:5000/team/neuron-extender:v1@sha256:..` is `neuron-extender`.
fn name_of(image: &str) -> &str {
    let name = image.rsplit('/').next().unwrap_or(image);
    name.split([':', '@']).next().unwrap_or(name)
}

fn ready<'a>(what: &str, pods: impl Iterator<Item = &'a Pod>) -> anyhow::Result<String> {
    let pods: Vec<&Pod> = pods.collect();
    let ready = pods.iter().filter(|pod| is_ready(pod)).count();
    ensure!(!pods.is_empty(), "no pod of {what} is there; install the suite as deploy/README.md says");
    if ready == 0 {
        let first = pods.first().and_then(|pod| pod.metadata.name.as_deref()).unwrap_or_default();
        bail!("none of {} pods of {what} is ready; ask `kubectl describe pod {first}` why", pods.len());
    }
    Ok(format!("{ready} of {} pods ready", pods.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_known_whatever_registry_and_tag_it_has() {
        for image in [
            "neuron-extender",
            "neuron-extender:dev",
            "registry.example:5000/team/neuron-extender:v1@sha256:00",
        ] {
            assert_eq!(name_of(image), "neuron-extender", "{image}");
        }
    }
}
