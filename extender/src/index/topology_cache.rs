//! The topologies of nodes, each worked out once and shared by all nodes that have it. Kept by the index.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::catalog::Catalog;
use neuron_core::report::NodeReport;
use neuron_core::topology::{NodeTopologyError, Policy, Topology, rules};
use runtime::reached;

/// The topologies in use, by what they follow from.
#[derive(Debug)]
pub(crate) struct TopologyCache {
    catalog: Arc<Catalog>,
    policy: Policy,
    /// What both make, to compare with what a plugin has.
    rules: String,
    topologies: BTreeMap<Key, Arc<Topology>>,
}

/// What a topology follows from: the label, and the report without health and holders, which change often.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    label: Option<String>,
    report: Option<ReportedTopology>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ReportedTopology {
    instance_type: String,
    lnc: u8,
    cores_per_device: Option<u8>,
    /// Each device and those that it is linked to, as bits.
    links: Vec<(u8, u64)>,
}

impl TopologyCache {
    /// Topologies by this catalog and policy.
    pub(crate) fn new(catalog: Arc<Catalog>, policy: Policy) -> Self {
        Self { rules: rules(&catalog, policy), catalog, policy, topologies: BTreeMap::new() }
    }

    /// The instance types that are known.
    pub(crate) fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// The rules that the topologies follow.
    pub(crate) fn rules(&self) -> &str {
        &self.rules
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.topologies.len()
    }

    /// The topology of a node with this label and report.
    pub(crate) fn of(
        &mut self,
        label: Option<&str>,
        report: Option<&NodeReport>,
    ) -> Result<Arc<Topology>, NodeTopologyError> {
        let key = Key {
            label: label.map(str::to_owned),
            report: report.map(|report| ReportedTopology {
                instance_type: report.instance_type.clone(),
                lnc: report.lnc,
                cores_per_device: report.cores_per_device,
                links: report.devices.iter().map(|device| (device.id, device.links.bits())).collect(),
            }),
        };
        if let Some(topology) = self.topologies.get(&key) {
            return Ok(Arc::clone(topology));
        }
        let policy = self.policy;
        // Planted: devices are linked, and yet no set that is documented.
        #[cfg(planted)]
        let policy = if runtime::is_planted("policy-not-followed") { Policy::Linked } else { policy };
        let topology = Arc::new(Topology::of_node(label, report, &self.catalog, policy)?);
        // Topologies that no node has any more go: whoever may write a node's report can make up new ones for ever.
        self.topologies.retain(|_, topology| {
            let is_used = Arc::strong_count(topology) > 1;
            if !is_used {
                reached("extender: topology dropped");
            }
            is_used
        });
        self.topologies.insert(key, Arc::clone(&topology));
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
    fn a_topology_that_no_node_has_any_more_is_not_kept() {
        let mut cache = TopologyCache::new(Arc::new(Catalog::embedded().clone()), Policy::Documented);
        let in_use = cache.of(None, Some(&report("a1.large"))).unwrap();
        for made_up in 0..100 {
            cache.of(None, Some(&report(&format!("b{made_up}.large")))).unwrap();
        }
        assert!(cache.topologies.len() <= 2, "{}", cache.topologies.len());
        let again = cache.of(None, Some(&report("a1.large"))).unwrap();
        assert!(Arc::ptr_eq(&in_use, &again));
    }
}
