//! The lines that AWS' documentation shows of its scheduler extension (docs/reference/neuron.md §3.3), so that published checks of its
//! log work here. Called by filter and bind. Off, and then without cost, unless the log's form is `classic`.
//!
//! The lines of a call come together, in AWS' order, once it has ended. Of a refusal they come once per reason, not per retry; of a
//! call or bind that failed there are none, since AWS' are not known. The other resource of a core request is
//! `aws.amazon.com/neuron`, which was `neurondevice` when AWS' were written; how its lines look for a device request is not known
//! either: a list of the device's cores. The Binding is shown as AWS' is, without the annotations that ours has.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};

use neuron_core::ids::{CoreSet, DeviceSet};
use neuron_core::names::Resource;
use neuron_core::record::{Allocation, Recorded};
use neuron_core::topology::Topology;
use tracing::{Level, enabled, trace};

use crate::index::Cluster;
use crate::verbs::bound::Bound;
use crate::wire::{BindArgs, FilterResult, PodMetadata};

/// Under this target the lines are traced, those of one call in one event.
pub const CLASSIC_LINES: &str = "neuron_extender::classic";

/// What filter found for a pod.
pub(crate) fn filtered(pod: &PodMetadata, answer: &FilterResult<'_>) {
    if !is_on() {
        return;
    }
    let fitting = answer.fitting_names();
    let failed = [&answer.failed_nodes, &answer.failed_and_unresolvable_nodes].into_iter().flatten();
    let mut lines = Lines::default();
    for node in &fitting {
        lines.push(format_args!("POD {} fits in Node:{node}", pod.name));
    }
    lines.push(format_args!("Filtered nodes: {}", GoSlice(&fitting)));
    lines.push(format_args!("Failed nodes: {}", GoMap(failed.collect())));
    lines.push("Finished Processing Filter Request...");
    lines.trace();
}

/// A bind whose lines are wanted.
pub(crate) struct ClassicBind {
    name: String,
    namespace: String,
    uid: String,
    node: String,
}

impl ClassicBind {
    /// What is to be bound where; none while no lines are wanted.
    pub(crate) fn of(args: &BindArgs) -> Option<Self> {
        let BindArgs { pod_name, pod_namespace, pod_uid, node } = args;
        is_on().then(|| Self {
            name: pod_name.clone(),
            namespace: pod_namespace.clone(),
            uid: pod_uid.clone(),
            node: node.clone(),
        })
    }

    /// The pod is bound.
    pub(crate) fn bound(self, bound: &Bound, cluster: &Cluster) {
        let Self { name, namespace, uid, node } = &self;
        let shares = self.shares(bound, cluster);
        let mut lines = Lines::default();
        lines.push("Executing Bind Request!");
        lines.push(format_args!("Determine if the pod %v is NeuronDevice pod{name}"));
        if !shares.is_empty() {
            lines.push("Updating POD Annotation with alloc devices!");
        }
        for Share { resource, ids, before, .. } in &shares {
            lines.push(format_args!("Return {}", resource.name()));
            lines.push(usage(*resource, node, before));
            lines.push(format_args!("Allocated ids for POD {name} are: {}", Ids(ids)));
        }
        if *bound != Bound::Already {
            lines.push(format_args!(
                "Try to bind pod {name} in {namespace} namespace to node {node} with &Binding{{ObjectMeta:{{{name}    {uid}  0 \
                 0001-01-01 00:00:00 +0000 UTC <nil> <nil> map[] map[] [] []  []}},Target:ObjectReference{{Kind:Node,Namespace:,\
                 Name:{node},UID:,APIVersion:,ResourceVersion:,FieldPath:,}},}}"
            ));
        }
        if !shares.is_empty() {
            lines.push("Updating the DevUsageMap since the bind is successful!");
        }
        for share in &shares {
            let Share { resource, other, ids, others, before, other_before, after, other_after } = share;
            lines.push(format_args!("Return {}", resource.name()));
            lines.push(usage(*resource, node, before));
            lines.push(usage(*other, node, other_before));
            lines.push(format_args!("Allocated devices list {} for resource {}", Ids(ids), resource.name()));
            for ids in others {
                let (ids, other) = (GoSlice(ids), other.name());
                lines.push(format_args!("Allocated devices list {ids} for other resource {other}"));
            }
            lines.push(format_args!("Return {}", resource.name()));
            lines.push(format_args!(
                "Successfully updated the DevUsageMap {}  and otherDevUsageMap {} after alloc for node {node}",
                GoSlice(after),
                GoSlice(other_after)
            ));
        }
        lines.push("Finished executing Bind Request...");
        lines.trace();
    }

    /// What the pod was given under each name; nothing where that cannot be told any more.
    fn shares(&self, bound: &Bound, cluster: &Cluster) -> Vec<Share> {
        let Bound::WithRecord(annotations) = bound else { return Vec::new() };
        let Ok(Some(Recorded::Ours(allocation))) = Allocation::parse(annotations) else { return Vec::new() };
        cluster.read(|index| {
            let known = index.view(&self.node).and_then(|view| view.known().ok());
            let Some((occupancy, _)) = known else { return Vec::new() };
            let (topology, own) = (occupancy.topology(), allocation.hardware(occupancy.topology()));
            let before = occupancy.held().difference(own);
            let asked = |resource: &Resource| match resource {
                Resource::Device => !allocation.union_devices().is_empty(),
                Resource::Core => !allocation.union_cores().is_empty(),
            };
            let asked = Resource::ALL.into_iter().filter(asked);
            asked.map(|resource| Share::of(resource, &allocation, topology, before)).collect()
        })
    }
}

/// What a pod was given under one name, and the node's ids under both that were in use before and after.
struct Share {
    resource: Resource,
    other: Resource,
    ids: Vec<u8>,
    /// Of each id what it is under the other name.
    others: Vec<Vec<u8>>,
    before: Vec<bool>,
    other_before: Vec<bool>,
    after: Vec<bool>,
    other_after: Vec<bool>,
}

impl Share {
    fn of(resource: Resource, allocation: &Allocation, topology: &Topology, before: CoreSet) -> Self {
        let after = before.union(allocation.hardware(topology));
        let in_use = |resource, cores| match resource {
            Resource::Device => {
                let devices = topology.devices_of(cores);
                (0..topology.devices()).map(|id| devices.contains(id)).collect()
            }
            Resource::Core => (0..topology.cores()).map(|id| cores.contains(id)).collect(),
        };
        let (other, ids): (_, Vec<u8>) = match resource {
            Resource::Device => (Resource::Core, allocation.union_devices().iter().collect()),
            Resource::Core => (Resource::Device, allocation.union_cores().iter().collect()),
        };
        let under_other = |&id: &u8| match resource {
            Resource::Device => topology.cores_of(DeviceSet::single(id)).iter().collect(),
            Resource::Core => topology.devices_of(CoreSet::single(id)).iter().collect(),
        };
        Self {
            resource,
            other,
            others: ids.iter().map(under_other).collect(),
            ids,
            before: in_use(resource, before),
            other_before: in_use(other, before),
            after: in_use(resource, after),
            other_after: in_use(other, after),
        }
    }
}

fn is_on() -> bool {
    enabled!(target: CLASSIC_LINES, Level::TRACE)
}

fn usage(resource: Resource, node: &str, in_use: &[bool]) -> String {
    format!("neuronDevUsageMap for resource:{} in node: {node} is {}", resource.name(), GoSlice(in_use))
}

/// The lines of one call.
#[derive(Default)]
struct Lines(String);

impl Lines {
    /// Adds one line: what callers sent cannot make more of it.
    fn push(&mut self, line: impl Display) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        // Writing to a text does not fail.
        let _ = write!(OneLine(&mut self.0), "{line}");
    }

    fn trace(self) {
        trace!(target: CLASSIC_LINES, "{}", self.0);
    }
}

struct OneLine<'t>(&'t mut String);

impl fmt::Write for OneLine<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let is_safe = |character: char| !character.is_control();
        self.0.extend(text.chars().map(|character| if is_safe(character) { character } else { ' ' }));
        Ok(())
    }
}

/// As Go prints a slice: `[0 1 2]`.
struct GoSlice<'s, T>(&'s [T]);

impl<T: Display> Display for GoSlice<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        separated(f, " ", self.0)?;
        f.write_str("]")
    }
}

/// As Go prints a map: `map[n1:why n2:why]`, sorted.
struct GoMap<K, V>(BTreeMap<K, V>);

impl<K: Display, V: Display> Display for GoMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("map[")?;
        for (place, (key, value)) in self.0.iter().enumerate() {
            let separator = if place > 0 { " " } else { "" };
            write!(f, "{separator}{key}:{value}")?;
        }
        f.write_str("]")
    }
}

/// As AWS prints the ids of a pod: `0,1,2`.
struct Ids<'i>(&'i [u8]);

impl Display for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        separated(f, ",", self.0)
    }
}

fn separated<T: Display>(f: &mut fmt::Formatter<'_>, separator: &str, all: &[T]) -> fmt::Result {
    for (place, one) in all.iter().enumerate() {
        if place > 0 {
            f.write_str(separator)?;
        }
        write!(f, "{one}")?;
    }
    Ok(())
}
