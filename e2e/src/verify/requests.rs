//! Which pods fit the cluster as it is, and one that no node can ever serve.

use anyhow::bail;
use neuron_core::names::Resource;

use super::check::{Check, Checks};
use super::pods::{PodLook, Pods};
use crate::view::{Hardware, NodeView, View};

/// What the pods ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Linked devices of one pod; none where no two devices that are linked are free.
    pub(super) linked: Option<u32>,
    /// Whether a device is free.
    pub(super) device: bool,
    /// Whether a core is free.
    pub(super) core: bool,
    /// Whether all of these can be held at one time.
    pub(super) together: bool,
    /// A number of devices that no node of the cluster serves, however empty; none where a node's devices are not known.
    unsupported: Option<u32>,
}

impl Plan {
    /// The requests for the nodes that take the pods. What no node serves is asked of all nodes.
    pub(super) fn of(chosen: &[&NodeView], view: &View) -> Self {
        let chosen: Vec<&Hardware> = chosen.iter().filter_map(|node| node.hardware.as_ref()).collect();
        let free: u32 = chosen.iter().map(|hardware| hardware.free_devices.len()).sum();
        // A device and a core beside it, which may be on a device of its own.
        let beside = 2;
        let linked = linked(&chosen, free.saturating_sub(beside)).or_else(|| linked(&chosen, free));
        Self {
            linked,
            device: free > 0,
            core: chosen.iter().any(|hardware| !hardware.free_cores.is_empty()),
            together: free >= linked.unwrap_or(0) + beside,
            unsupported: unsupported(view),
        }
    }
}

fn unsupported(view: &View) -> Option<u32> {
    let every: Option<Vec<&Hardware>> = view.nodes.iter().map(|node| node.hardware.as_ref()).collect();
    let every = every?;
    let is_served =
        |count: &u32| every.iter().any(|hardware| hardware.topology.supports(Resource::Device, *count));
    let most = every.iter().map(|hardware| u32::from(hardware.topology.devices())).max()?;
    (2..=most + 1).find(|count| !is_served(count))
}

/// Two, or else the largest number of devices up to `most` of which a linked set is free.
fn linked(chosen: &[&Hardware], most: u32) -> Option<u32> {
    let is_free = |count: &u32| {
        chosen.iter().any(|hardware| {
            let sets = hardware.topology.device_sets(*count).iter();
            sets.into_iter().any(|set| set.difference(hardware.free_devices).is_empty())
        })
    };
    if most >= 2 && is_free(&2) { Some(2) } else { (3..=most).rev().find(is_free) }
}

/// Checks that a pod which no node can ever serve is told so in the documented words.
pub(super) async fn check_unsupported(plan: &Plan, pods: &Pods<'_>, checks: &mut Checks<impl Fn(&Check)>) {
    let Some(count) = plan.unsupported else {
        checks.not_applicable("unsupported count", "not every Neuron node says which devices it has");
        return;
    };
    checks.add(format!("{count} devices, which no node serves"), warned(count, pods).await);
}

async fn warned(count: u32, pods: &Pods<'_>) -> anyhow::Result<String> {
    let words = format!(
        "does not support requests for device: {count}. Please request a different number of devices."
    );
    let name = pods.create("unsupported", Resource::Device, count).await?;
    let what = format!("pod {name} to be told that its count is not supported");
    let seen = pods.look_until(&name, &what, |seen: &PodLook| {
        let is_told = seen.texts.iter().find(|text| text.contains(&words));
        is_told.cloned().or_else(|| seen.pod_node().map(|node| format!("placed on {node}")))
    });
    let text = seen.await?;
    if !text.contains(&words) {
        bail!("pod {name} asks for {count} devices, which no node serves, and was {text}");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{Node, Pod};
    use neuron_core::catalog::Catalog;
    use serde_json::json;

    use super::*;

    /// A cluster with a node of each type, of which the first holds so many devices.
    fn view(types: &[&str], held: u8) -> View {
        let node = |name: &&str| -> Node {
            let labels = json!({"node.kubernetes.io/instance-type": name});
            let links = &Catalog::embedded().find(name).unwrap().driver_links;
            let device = |(id, links)| json!({"id": id, "links": links, "health": "Healthy"});
            let devices: Vec<_> = links.iter().enumerate().map(device).collect();
            let lnc = Catalog::embedded().find(name).unwrap().default_lnc;
            let report = json!({"v": 1, "instanceType": name, "lnc": lnc, "devices": devices, "holders": []});
            let annotations = json!({"neuron-scheduler/devices": report.to_string()});
            let ready = json!({"conditions": [{"type": "Ready", "status": "True"}]});
            let metadata = json!({"name": name, "labels": labels, "annotations": annotations});
            serde_json::from_value(json!({"metadata": metadata, "status": ready})).unwrap()
        };
        let nodes: Vec<Node> = types.iter().map(node).collect();
        let ids: Vec<u8> = (0..held).collect();
        let record = json!({"v": 1, "node": types[0], "lnc": 1, "containers": {"main": {"devices": ids}}});
        let pod = json!({
            "metadata": {
                "namespace": "default", "name": "holder", "uid": "1",
                "annotations": {"neuron-scheduler/allocation": record.to_string()},
            },
            "spec": {
                "nodeName": types[0],
                "containers": [{"name": "main", "resources": {"limits": {"aws.amazon.com/neuron": held.to_string()}}}],
            },
            "status": {"phase": "Running"},
        });
        let pods: Vec<Pod> = if held > 0 { vec![serde_json::from_value(pod).unwrap()] } else { Vec::new() };
        View::of(&nodes, &pods, &[])
    }

    fn plan(types: &[&str], held: u8) -> Plan {
        let view = view(types, held);
        Plan::of(&view.nodes.iter().collect::<Vec<_>>(), &view)
    }

    #[test]
    fn two_linked_devices_where_two_are_a_set_and_else_as_many_as_are_free() {
        assert_eq!(plan(&["inf2.24xlarge"], 0).linked, Some(2));
        // Two of 16 free devices are left for the other pods.
        assert_eq!(plan(&["trn1.32xlarge"], 0).linked, Some(8));
        assert_eq!(plan(&["trn1.32xlarge"], 8).linked, Some(4));
        let one = plan(&["inf2.xlarge"], 0);
        assert_eq!((one.linked, one.device, one.core, one.together), (None, true, true, false));
    }

    #[test]
    fn pods_that_do_not_fit_beside_each_other_are_made_one_after_the_other() {
        assert!(plan(&["inf2.24xlarge"], 2).together);
        let crowded = plan(&["inf2.24xlarge"], 4);
        assert_eq!((crowded.linked, crowded.together), (Some(2), false));
        let full = plan(&["inf2.24xlarge"], 6);
        assert_eq!((full.linked, full.device, full.core), (None, false, false));
    }

    #[test]
    fn the_count_that_nobody_serves_is_asked_of_every_node() {
        assert_eq!(plan(&["trn1.32xlarge"], 0).unsupported, Some(2));
        assert_eq!(plan(&["inf2.24xlarge"], 0).unsupported, Some(7));
        assert_eq!(plan(&["trn1.32xlarge", "inf2.24xlarge"], 0).unsupported, Some(7));
        assert_eq!(plan(&["inf2.xlarge"], 0).unsupported, Some(2));
    }
}
