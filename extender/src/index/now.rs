//! What `/metrics` shows of the index. Asked by the routes.

use super::{Cluster, Index, NodeView, Watched};
use crate::metrics::{NodeNow, Now, WatchNow};

impl Cluster {
    /// What is known now.
    pub(crate) fn now(&self) -> Now {
        self.read(Index::now)
    }
}

impl Index {
    fn now(&self) -> Now {
        let watch = |name, watched: &Watched| WatchNow {
            name,
            is_connected: watched.is_connected(),
            silent_for: watched.gap.silent_for(),
        };
        let leases = self.leases.is_followed.then(|| watch("leases", &self.leases.watch));
        let watches = [watch("pods", &self.pod_watch), watch("nodes", &self.node_watch)];
        let mut now = Now {
            watches: watches.into_iter().chain(leases).collect(),
            nodes: self.views().filter_map(NodeView::now).collect(),
            reservations: self.overlay.len(),
            waiting: self.pending.len(),
            ..Now::default()
        };
        for settled in self.views().filter_map(NodeView::settled) {
            now.unknown_holders += settled.unknown.len();
            now.ignored_records += settled.ignored.len();
            now.shared += settled.shared.len();
        }
        now
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
            name: self.name.to_string(),
            instance_type: topology.instance_type().to_owned(),
            devices: [free.len(), held.len(), unhealthy.len()].map(count),
            cores: [occupancy.free_cores().len(), held_cores.len(), unhealthy_cores.len()].map(count),
            largest_free_set: occupancy.largest_free_set().into(),
        })
    }
}
