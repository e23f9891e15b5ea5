//! The topology of a node whose instance type is not in the catalog: what its plugin reports of it.

use super::{Topology, TopologyError, candidate_sets};
use crate::ids::{DeviceSet, MAX_CORES};
use crate::report::NodeReport;

impl Topology {
    /// The topology of a node whose instance type is not in the catalog, as its plugin reports it. Candidate sets
    /// are, under either policy, one device, all devices, or consecutive ids that are linked.
    ///
    /// # Errors
    /// [`TopologyError`] if the report leaves out what placement needs, or says what no node has.
    pub fn of_report(report: &NodeReport) -> Result<Topology, TopologyError> {
        let name = &report.instance_type;
        let error = |problem: String| TopologyError::Report { instance_type: name.clone(), problem };
        let ids = report.device_ids();
        let devices = ids.len() as u8;
        if devices == 0 || ids != DeviceSet::run(0, devices) {
            return Err(error(format!("lists devices {{{ids}}}; their ids must count from 0 without a gap")));
        }
        let Some(cores_per_device) = report.cores_per_device.filter(|&cores| cores > 0) else {
            return Err(error(
                "does not say coresPerDevice, which a type without a known shape needs".to_owned(),
            ));
        };
        let cores = usize::from(devices) * usize::from(cores_per_device);
        if cores > MAX_CORES {
            return Err(error(format!("has {cores} logical cores; at most {MAX_CORES} are supported")));
        }
        if !(1..=2).contains(&report.lnc) {
            return Err(TopologyError::Lnc {
                instance_type: name.clone(),
                lnc: report.lnc,
                allowed: "1 or 2",
            });
        }
        let mut links = vec![DeviceSet::EMPTY; usize::from(devices)];
        // A link that one end alone reports is a link: a lost device reports none.
        for device in &report.devices {
            for other in device.links.intersection(ids).iter().filter(|&other| other != device.id) {
                links[usize::from(device.id)] = links[usize::from(device.id)].union(DeviceSet::single(other));
                links[usize::from(other)] = links[usize::from(other)].union(DeviceSet::single(device.id));
            }
        }
        let mut topology = Topology::without_sets(name, report.lnc, cores_per_device, links);
        let device_sets = candidate_sets::of_report(&topology);
        topology.set_candidates(device_sets, false);
        Ok(topology)
    }
}
