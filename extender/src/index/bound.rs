//! Pods by the node that they are bound to. Kept by the index. There are more of them than of anything else, so that each name and UID is
//! in memory once.

use std::collections::BTreeMap;
use std::sync::Arc;

use neuron_core::pod::BoundPod;

/// The pods that are bound.
#[derive(Debug, Default)]
pub(super) struct BoundPods {
    /// By UID: a node's pods are settled in that order, again and again.
    by_node: BTreeMap<Arc<str>, Vec<Arc<BoundPod>>>,
    /// The node of each pod, by UID: the key of `by_node`, and the pod's own UID.
    node_of: BTreeMap<Arc<str>, Arc<str>>,
}

impl BoundPods {
    /// The pod is bound to this node. Whether that, or anything of the pod, is news.
    pub(super) fn apply(&mut self, node: &Arc<str>, mut pod: Arc<BoundPod>) -> bool {
        let node = Arc::clone(self.by_node.get_key_value(node).map_or(node, |(known, _)| known));
        self.node_of.insert(Arc::clone(&pod.uid), Arc::clone(&node));
        let shared = Arc::make_mut(&mut pod);
        shared.share_node(&node);
        // Of a pod that was known before, the key is the one of then.
        if let Some((uid, _)) = self.node_of.get_key_value(&shared.uid) {
            shared.uid = Arc::clone(uid);
        }
        let pods = self.by_node.entry(node).or_default();
        match place_of(pods, &pod.uid) {
            Ok(place) if pods[place] == pod => return false,
            Ok(place) => pods[place] = pod,
            Err(place) => pods.insert(place, pod),
        }
        true
    }

    /// The pod is gone. The node that it was bound to, if it was.
    pub(super) fn remove(&mut self, uid: &str) -> Option<Arc<str>> {
        let node = self.node_of.remove(uid)?;
        if let Some(pods) = self.by_node.get_mut(&node) {
            if let Ok(place) = place_of(pods, uid) {
                pods.remove(place);
            }
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        Some(node)
    }

    /// The pod and the node that it is bound to.
    pub(super) fn get(&self, uid: &str) -> Option<(&Arc<BoundPod>, &str)> {
        let node = self.node_of.get(uid)?;
        let pods = self.on(node);
        Some((&pods[place_of(pods, uid).ok()?], node))
    }

    /// The pods that are bound to the node, by UID.
    pub(super) fn on(&self, node: &str) -> &[Arc<BoundPod>] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// Of all of them.
    pub(super) fn uids(&self) -> impl Iterator<Item = &str> {
        self.node_of.keys().map(|uid| &**uid)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.node_of.len()
    }
}

/// Where the pod with this UID stands among a node's.
///
/// # Errors
/// It is not there; where it would stand.
fn place_of(pods: &[Arc<BoundPod>], uid: &str) -> Result<usize, usize> {
    pods.binary_search_by(|pod| (*pod.uid).cmp(uid))
}

#[cfg(test)]
mod tests {
    use neuron_core::pod::PodSpec;
    use neuron_core::record::Recorded;

    use super::*;

    /// A pod with a record for `n1`, as each event of it is read.
    fn pod(uid: &str, priority: i32) -> Arc<BoundPod> {
        let record = r#"{"v":1,"node":"n1","lnc":1,"containers":{"main":{"devices":[0]}}}"#;
        let annotations = BTreeMap::from([("neuron-scheduler/allocation".to_owned(), record.to_owned())]);
        let spec = PodSpec { priority: Some(priority), ..PodSpec::default() };
        Arc::new(BoundPod::new("default", "one", uid, annotations, &spec, None))
    }

    #[test]
    fn each_pod_is_found_whichever_came_first() {
        let mut bound = BoundPods::default();
        for uid in ["v", "w", "u"] {
            assert!(bound.apply(&"n1".into(), pod(uid, 1)));
        }
        let uids =
            |bound: &BoundPods| bound.on("n1").iter().map(|pod| pod.uid.to_string()).collect::<String>();
        assert_eq!(uids(&bound), "uvw");
        assert!(bound.apply(&"n1".into(), pod("v", 2)) && !bound.apply(&"n1".into(), pod("u", 1)));
        let priority = |uid| bound.get(uid).map(|(pod, _)| pod.priority);
        assert_eq!(["u", "v", "w", "x"].map(priority), [Some(1), Some(2), Some(1), None]);
        assert_eq!([bound.remove("u").as_deref(), bound.remove("u").as_deref()], [Some("n1"), None]);
        assert_eq!(uids(&bound), "vw");
    }

    #[test]
    fn names_and_uids_are_in_memory_once_however_often_a_pod_is_shown() {
        let mut bound = BoundPods::default();
        let news = [1, 1, 2].map(|priority| bound.apply(&"n1".into(), pod("u", priority)));
        assert_eq!(news, [true, false, true]);
        let (pod, _) = bound.get("u").unwrap();
        let ((uid, node), (name, _)) =
            (bound.node_of.first_key_value().unwrap(), bound.by_node.first_key_value().unwrap());
        let Ok(Some(Recorded::Ours(record))) = &pod.record else { panic!("it has a record") };
        assert!(Arc::ptr_eq(&pod.uid, uid) && Arc::ptr_eq(node, name) && Arc::ptr_eq(&record.node, name));
        assert_eq!((pod.priority, bound.remove("u").as_deref()), (2, Some("n1")));
        assert_eq!((bound.len(), bound.on("n1").len()), (0, 0));
    }
}
