//! The shapes of nodes, each worked out once and shared. Kept by the index.

use std::collections::HashMap;
use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::holders::{NodeRefusal, topology_of};
use neuron_core::ids::DeviceSet;
use neuron_core::report::NodeReport;
use neuron_core::topology::{Policy, Topology};

/// Works shapes out and remembers them.
#[derive(Debug)]
pub(crate) struct Shapes {
    catalog: Arc<Catalog>,
    policy: Policy,
    known: HashMap<Key, Arc<Topology>>,
}

/// What a shape is worked out from: the label and the report without health and holders, which change often.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    label: Option<String>,
    report: Option<ReportedShape>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct ReportedShape {
    instance_type: String,
    lnc: u8,
    cores_per_device: Option<u8>,
    links: Vec<(u8, DeviceSet)>,
}

impl Shapes {
    /// Shapes by this catalog and policy.
    pub(crate) fn new(catalog: Arc<Catalog>, policy: Policy) -> Self {
        Self { catalog, policy, known: HashMap::new() }
    }

    /// The shape of a node with this label and report.
    pub(crate) fn of(
        &mut self,
        label: Option<&str>,
        report: Option<&NodeReport>,
    ) -> Result<Arc<Topology>, NodeRefusal> {
        let key = Key {
            label: label.map(str::to_owned),
            report: report.map(|report| ReportedShape {
                instance_type: report.instance_type.clone(),
                lnc: report.lnc,
                cores_per_device: report.cores_per_device,
                links: report.devices.iter().map(|device| (device.id, device.links)).collect(),
            }),
        };
        if let Some(topology) = self.known.get(&key) {
            return Ok(topology.clone());
        }
        let topology = Arc::new(topology_of(label, report, &self.catalog, self.policy)?);
        // Those that no node has any more. Whoever may write a node's report can make up new ones for ever.
        self.known.retain(|_, known| Arc::strong_count(known) > 1);
        self.known.insert(key, topology.clone());
        Ok(topology)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(instance_type: &str) -> NodeReport {
        let text = format!(
            r#"{{"v":1,"instanceType":"{instance_type}","lnc":1,"coresPerDevice":2,"devices":[{{"id":0,"links":[],
            "health":"Healthy"}}],"holders":[]}}"#
        );
        NodeReport::parse(&text).unwrap()
    }

    #[test]
    fn a_shape_that_no_node_has_any_more_is_not_kept() {
        let mut shapes = Shapes::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
        let in_use = shapes.of(None, Some(&report("a1.large"))).unwrap();
        for made_up in 0..100 {
            shapes.of(None, Some(&report(&format!("b{made_up}.large")))).unwrap();
        }
        assert!(shapes.known.len() <= 2, "{}", shapes.known.len());
        let again = shapes.of(None, Some(&report("a1.large"))).unwrap();
        assert!(Arc::ptr_eq(&in_use, &again));
    }
}
