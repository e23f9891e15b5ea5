//! What can happen in a simulation. Each fault names how long it lasts; what is not undone by its end is for good.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Place;
use super::settings::ApiRates;

/// Kinds of faults whose names do not depend on the suite, as a summary counts them.
pub const FAULTS: &[&str] = &[
    "409",
    "410",
    "429",
    "500",
    "504",
    "API faults",
    "API server down",
    "answer lost",
    "cache behind",
    "checkpoint garbled",
    "checkpoint hangs",
    "checkpoint lost",
    "checkpoint not readable",
    "checkpoint not writable",
    "checkpoint older",
    "compaction",
    "cluster 409",
    "cluster 410",
    "cluster 429",
    "cluster 500",
    "cluster 504",
    "cluster API faults",
    "cluster answer lost",
    "cluster request broken",
    "cluster watch ended",
    "cut",
    "cut with reset",
    "deletion by force",
    "foreign list",
    "freeze node",
    "node replaced",
    "one-way cut",
    "plugin files removed",
    "power loss",
    "power loss for good",
    "preferences ignored",
    "request broken",
    "request late",
    "skew",
    "sockets reset",
    "stale list",
    "watch ended",
    "watch lag",
];

/// What happens at a time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Milliseconds since the beginning.
    pub at: u64,
    /// What happens.
    #[serde(flatten)]
    pub what: What,
}

/// What happens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub enum What {
    /// Pods are created at once.
    Create {
        /// Their manifests, each with a name of its own.
        pods: Vec<Value>,
    },
    /// A pod is deleted; one that is gone is no error.
    Delete {
        /// Its name.
        pod: String,
        /// The grace in seconds; 0: by force; none: the pod's own.
        grace: Option<u32>,
    },
    /// A Job keeps so many pods running until so many have succeeded.
    Job {
        /// Its name, with which its pods' begin.
        name: String,
        /// What its pods are made of.
        pod: Value,
        /// Pods at one time.
        parallelism: u32,
        /// Pods that must succeed.
        completions: u32,
    },
    /// A StatefulSet keeps pods of fixed names; one of a name that is known changes the number.
    StatefulSet {
        /// Its name, with which its pods' begin.
        name: String,
        /// What its pods are made of.
        pod: Value,
        /// Number of pods.
        replicas: u32,
    },
    /// A Job or StatefulSet goes, with its pods.
    DeleteOwner {
        /// Its name.
        name: String,
    },
    /// A part is killed, and started again as its kubelet does.
    Kill {
        /// The part: `kubelet`, `scheduler`, `controllers` or a program of the suite.
        part: String,
        /// Where.
        on: Place,
        /// How many more times its tasks are polled before, if they are within a minute; none: it is killed at once.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after_polls: Option<u64>,
    },
    /// A program of the suite is asked to end, as by SIGTERM, and started again once it has. What has not ended half a minute later
    /// is killed.
    Stop {
        /// The program.
        part: String,
        /// Where.
        on: Place,
    },
    /// A part is stopped where it is, and goes on.
    Freeze {
        /// The part; `node`: all that runs there.
        part: String,
        /// Where.
        on: Place,
        /// How long, in seconds.
        seconds: u32,
    },
    /// A part is killed, and nobody starts it for a while.
    Away {
        /// The part.
        part: String,
        /// Where.
        on: Place,
        /// How long, in seconds; none: for good.
        seconds: Option<u32>,
    },
    /// A second process of a program runs beside the first.
    Second {
        /// The program.
        part: String,
        /// Where.
        on: Place,
        /// How long, in seconds.
        seconds: u32,
    },
    /// A part's wall clock is wrong from now on.
    Skew {
        /// The part.
        part: String,
        /// Where.
        on: Place,
        /// How far it is ahead, in milliseconds; negative: behind.
        milliseconds: i64,
    },
    /// A node loses its power; what was on it starts again when it is back, without its containers.
    PowerLoss {
        /// The node's place.
        node: usize,
        /// How long, in seconds; none: until its machine is replaced.
        seconds: Option<u32>,
    },
    /// A Node object is deleted, its machine is replaced by a new one and registers again.
    ReplaceNode {
        /// The node's place.
        node: usize,
        /// How long there is none, in seconds.
        seconds: u32,
    },
    /// A link is cut.
    Cut {
        /// From where.
        from: Place,
        /// To where.
        to: Place,
        /// The way back, too.
        both: bool,
        /// Open connections are reset at once; else they lead nowhere.
        reset: bool,
        /// How long, in seconds.
        seconds: u32,
    },
    /// The API server answers nobody.
    ApiDown {
        /// How long, in seconds.
        seconds: u32,
    },
    /// The API server forgets all old versions: new watches must list again.
    Compact,
    /// The API server's answers to the suite's programs go wrong more often.
    ApiFaults {
        /// How often.
        rates: ApiRates,
        /// How long, in seconds.
        seconds: u32,
    },
    /// The API server's answers to kubelets, scheduler and controllers go wrong more often.
    ClusterApiFaults {
        /// How often.
        rates: ApiRates,
        /// How long, in seconds.
        seconds: u32,
    },
    /// The watches of the parts on a host show everything later, each by another time.
    WatchLag {
        /// Whose.
        on: Place,
        /// By how much at most, in milliseconds.
        milliseconds: u32,
        /// How long, in seconds.
        seconds: u32,
    },
    /// The API server that the parts on a host reach answers their lists from a cache that is behind: where any state will do, and the
    /// reflectors of kubelet and scheduler begin with such a list, they are shown an older one.
    CacheBehind {
        /// Whose.
        on: Place,
        /// How many writes ago the state is.
        writes: u32,
        /// How long, in seconds.
        seconds: u32,
    },
    /// A stranger on a node asks kubelet's podresources API for all pods, as monitors do.
    ForeignList {
        /// The node's place.
        node: usize,
    },
    /// kubelet is killed, and its checkpoint is gone when it starts again.
    CheckpointLost {
        /// The node's place.
        node: usize,
    },
    /// The second half of kubelet's checkpoint is gone, until kubelet writes it again.
    CheckpointGarbled {
        /// The node's place.
        node: usize,
    },
    /// kubelet's next write of its checkpoint is undone at once, as where one of its own writes of an older state comes after it
    /// (docs/reference/kubernetes.md §7).
    CheckpointOlder {
        /// The node's place.
        node: usize,
        /// How long a write is waited for, in seconds.
        seconds: u32,
    },
    /// A node's kubelet cannot write its checkpoint, as on a full disk.
    CheckpointUnwritable {
        /// The node's place.
        node: usize,
        /// How long, in seconds.
        seconds: u32,
    },
    /// Nobody on a node can read kubelet's checkpoint, as on a bad disk. A kubelet that starts goes on without it, or, where it hangs, does
    /// not come so far.
    CheckpointUnreadable {
        /// The node's place.
        node: usize,
        /// Whether reads get no answer; else they fail at once.
        hangs: bool,
        /// How long, in seconds.
        seconds: u32,
    },
    /// kubelet gives containers other ids than plugins prefer where there are any, as with a topology manager of another view.
    PreferencesIgnored {
        /// The node's place.
        node: usize,
        /// How long, in seconds.
        seconds: u32,
    },
    /// Somebody clears kubelet's plugin folder: all is gone but kubelet's own socket and checkpoint.
    PluginFilesRemoved {
        /// The node's place.
        node: usize,
    },
    /// Every connection between the programs of a node breaks, with none of them ended.
    SocketsReset {
        /// The node's place.
        node: usize,
    },
    /// Something about a device breaks.
    Device {
        /// The node's place.
        node: usize,
        /// The device.
        device: u32,
        /// What, as the suite calls it.
        fault: String,
        /// How long, in seconds; none: for good.
        seconds: Option<u32>,
    },
    /// Something about a node's whole machine goes wrong.
    Machine {
        /// The node's place.
        node: usize,
        /// What, as the suite calls it.
        fault: String,
        /// How long, in seconds.
        seconds: u32,
    },
    /// Somebody edits by hand what the suite has written on a pod that runs. Nobody puts it right.
    EditPod {
        /// The pod's name.
        pod: String,
        /// What, as the suite calls it.
        what: String,
    },
    /// Somebody edits by hand what belongs to the suite.
    Edit {
        /// The node's place.
        node: usize,
        /// What, as the suite calls it.
        what: String,
        /// After how many seconds it is put right.
        seconds: u32,
    },
    /// Nothing goes wrong until the end of the rest, and nothing new comes: whatever lasted is over, what is for good stays.
    /// At its end the cluster is judged.
    Rest {
        /// How long, in seconds.
        seconds: u32,
    },
}

impl Event {
    /// When it happens, since the beginning.
    pub fn time(&self) -> Duration {
        Duration::from_millis(self.at)
    }
}

impl What {
    /// How long it keeps requests to the API server from being carried out, answered or seen.
    pub(crate) fn disturbs_api(&self) -> Option<Duration> {
        let (What::Cut { seconds, .. }
        | What::ApiDown { seconds }
        | What::ApiFaults { seconds, .. }
        | What::ClusterApiFaults { seconds, .. }
        | What::WatchLag { seconds, .. }) = self
        else {
            return None;
        };
        Some(Duration::from_secs((*seconds).into()))
    }

    /// What a fault is counted as; none of what is no fault.
    pub fn fault(&self) -> Option<String> {
        Some(match self {
            What::Create { .. } | What::Job { .. } | What::StatefulSet { .. } | What::Rest { .. } => {
                return None;
            }
            What::Delete { grace: Some(0), .. } => "deletion by force".to_owned(),
            What::Delete { .. } | What::DeleteOwner { .. } => return None,
            What::Kill { part, .. } => format!("kill {part}"),
            What::Stop { part, .. } => format!("stop {part}"),
            What::Away { part, seconds: Some(_), .. } => format!("away {part}"),
            What::Away { part, seconds: None, .. } => format!("away {part} for good"),
            What::Freeze { part, .. } => format!("freeze {part}"),
            What::Second { part, .. } => format!("second {part}"),
            What::Skew { .. } => "skew".to_owned(),
            What::PowerLoss { seconds: Some(_), .. } => "power loss".to_owned(),
            What::PowerLoss { seconds: None, .. } => "power loss for good".to_owned(),
            What::ReplaceNode { .. } => "node replaced".to_owned(),
            What::Cut { reset: true, .. } => "cut with reset".to_owned(),
            What::Cut { both: false, .. } => "one-way cut".to_owned(),
            What::Cut { .. } => "cut".to_owned(),
            What::ApiDown { .. } => "API server down".to_owned(),
            What::Compact => "compaction".to_owned(),
            What::ApiFaults { .. } => "API faults".to_owned(),
            What::ClusterApiFaults { .. } => "cluster API faults".to_owned(),
            What::WatchLag { .. } => "watch lag".to_owned(),
            What::CacheBehind { .. } => "cache behind".to_owned(),
            What::ForeignList { .. } => "foreign list".to_owned(),
            What::CheckpointLost { .. } => "checkpoint lost".to_owned(),
            What::CheckpointGarbled { .. } => "checkpoint garbled".to_owned(),
            What::CheckpointOlder { .. } => "checkpoint older".to_owned(),
            What::CheckpointUnwritable { .. } => "checkpoint not writable".to_owned(),
            What::CheckpointUnreadable { hangs: true, .. } => "checkpoint hangs".to_owned(),
            What::CheckpointUnreadable { .. } => "checkpoint not readable".to_owned(),
            What::PreferencesIgnored { .. } => "preferences ignored".to_owned(),
            What::PluginFilesRemoved { .. } => "plugin files removed".to_owned(),
            What::SocketsReset { .. } => "sockets reset".to_owned(),
            What::Device { fault, .. } => format!("device {fault}"),
            What::Machine { fault, .. } => format!("machine: {fault}"),
            What::Edit { what, .. } | What::EditPod { what, .. } => format!("edit {what}"),
        })
    }
}
