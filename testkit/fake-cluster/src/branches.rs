//! The branches that the cluster's parts count by [`runtime::reached`]: what real ones do rarely, and what a simulation must not
//! miss. A simulation's report reads the list.

/// The names of the branches, sorted. The code that takes one stands in this crate.
pub const BRANCHES: &[&str] = &[
    "cluster: a bind failed",
    "cluster: a binding met a pod that is being deleted",
    "cluster: a binding met a pod that is bound",
    "cluster: a call of kubelet or scheduler was lost",
    "cluster: a checkpoint could not be read",
    "cluster: a checkpoint was restored",
    "cluster: a container ended while no kubelet ran",
    "cluster: a container got no devices at its start",
    "cluster: a container ran on over kubelet's restart",
    "cluster: a container takes all of its grace",
    "cluster: a lease was not renewed",
    "cluster: a list showed an older state",
    "cluster: a node's status was not written",
    "cluster: a plugin ended and another remained",
    "cluster: a plugin was refused, its path is held",
    "cluster: a plugin's list was dropped with it",
    "cluster: a pod was gone before its containers had ended",
    "cluster: a refused pod was tried again after five minutes",
    "cluster: a request met an outage",
    "cluster: a resource was forgotten, its plugin was gone too long",
    "cluster: a second deletion shortened the grace",
    "cluster: a status was written again that another one had overwritten",
    "cluster: a watch began with an older state",
    "cluster: a watch could not begin at its version",
    "cluster: a watch fell behind what is kept",
    "cluster: a write met a newer object",
    "cluster: a write met another object of the name",
    "cluster: admission refused by the plugin",
    "cluster: admission refused, its devices are unhealthy",
    "cluster: admission refused, no device is healthy",
    "cluster: admission refused, no preference was answered",
    "cluster: admission refused, the checkpoint was not written",
    "cluster: admission refused, the node has too little",
    "cluster: admission refused, the plugin has stopped",
    "cluster: admission refused, the resource is forgotten",
    "cluster: admission refused, too few devices are free",
    "cluster: an event ended",
    "cluster: an extender's filter failed",
    "cluster: an outage ended a watch",
    "cluster: containers were ended that no pod knew",
    "cluster: devices of a plugin long gone are allocatable",
    "cluster: devices were allocated as their container started",
    "cluster: ids were given out again while their container ran",
    "cluster: kubelet chose among ids that were handed down",
    "cluster: kubelet forgot the ids of an open Allocate",
    "cluster: kubelet lost sight of a plugin",
    "cluster: kubelet panicked",
    "cluster: of a bind only the answer was lost",
    "cluster: pods ended for another one",
    "cluster: the end of a plugin was not noticed",
    "cluster: the end of an older plugin dropped the newest",
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The names that follow on each call in the sources below `folder`.
    #[allow(clippy::disallowed_methods, reason = "the sources are on the machine that builds")]
    fn counted(folder: &Path) -> Vec<String> {
        // Not written as one, since this file is a source too.
        let call = ["reached", "("].concat();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                names.extend(counted(&path));
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            let calls = source.split(&call).skip(1).filter_map(|rest| rest.trim_start().strip_prefix('"'));
            names.extend(calls.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
        }
        names
    }

    #[test]
    fn the_list_has_the_branches_that_are_counted_and_no_others() {
        let counted = counted(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"));
        let listed: Vec<String> = BRANCHES.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(counted.into_iter().collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>(), listed);
    }
}
