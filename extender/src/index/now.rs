//! What `/metrics` shows of the index. Asked by the routes.

use super::{Index, NodeView};
use crate::metrics::{NodeNow, Now};

impl Index {
    /// What is known now.
    pub(crate) fn now(&self) -> Now {
        let unknown = self.views().filter_map(NodeView::settled).map(|settled| settled.unknown.len());
        let tells = |watched: &super::Watched| watched.is_listed && watched.disconnected.is_none();
        Now {
            nodes: self.views().filter_map(NodeView::now).collect(),
            reservations: self.overlay.len(),
            waiting: self.pending.len(),
            unknown_holders: unknown.sum(),
            leads: true,
            watches: vec![("pods", tells(&self.pod_watch)), ("nodes", tells(&self.node_watch))],
        }
    }
}

impl NodeView {
    /// The node's hardware; none if its topology is not known.
    fn now(&self) -> Option<NodeNow> {
        let (occupancy, _) = self.known().ok()?;
        let topology = occupancy.topology();
        let (unhealthy, free) = (occupancy.unhealthy(), occupancy.free_devices());
        let unhealthy_cores = topology.cores_of(unhealthy);
        let held = topology.all_devices().difference(unhealthy).difference(free);
        let held_cores = occupancy.held().difference(unhealthy_cores);
        let count = |number: u32| number as usize;
        Some(NodeNow {
            name: self.name.clone(),
            instance_type: topology.instance_type().to_owned(),
            devices: [free.len(), held.len(), unhealthy.len()].map(count),
            cores: [occupancy.free_cores().len(), held_cores.len(), unhealthy_cores.len()].map(count),
            largest_free_set: occupancy.largest_free_set().into(),
        })
    }
}
