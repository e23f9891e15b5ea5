//! Cores that kubelet gave to two pods by the node's report. Called by [`super::settle`].

use std::sync::Arc;

use crate::ids::CoreSet;
use crate::pod::BoundPod;

/// A pod that was given cores which another living pod was given, too.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// The pod's UID.
    pub uid: Arc<str>,
    /// The pod as `namespace/name`.
    pub pod: String,
    /// The logical cores that both have.
    pub cores: CoreSet,
    /// The other pod as `namespace/name`; of several the first by UID.
    pub with: String,
}

/// The pods that share cores, of these in the order of their UIDs.
pub(super) fn shared(reported: &[(&BoundPod, CoreSet)]) -> Vec<Shared> {
    let (mut once, mut twice) = (CoreSet::EMPTY, CoreSet::EMPTY);
    for (_, cores) in reported {
        twice = twice.union(once.intersection(*cores));
        once = once.union(*cores);
    }
    // Nearly always nothing is, and a node is settled for every pod that comes or goes.
    let concerned: Vec<_> = reported.iter().filter(|(_, cores)| cores.intersects(twice)).collect();
    let shares = |(pod, cores): &&(&BoundPod, CoreSet)| {
        let (other, theirs) =
            concerned.iter().find(|(other, theirs)| other.uid != pod.uid && theirs.intersects(*cores))?;
        Some(Shared {
            uid: pod.uid.clone(),
            pod: (*pod.full_name).to_owned(),
            cores: cores.intersection(*theirs),
            with: (*other.full_name).to_owned(),
        })
    };
    concerned.iter().copied().filter_map(|one| shares(&one)).collect()
}
