//! What is wrong with the fixture, and which cases must see it.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Defect {
    Nothing,
    /// The first Allocate of all fails.
    FirstAllocate,
    /// A CDI device has a name that no runtime finds.
    UnqualifiedCdi,
    /// It refuses ids that were handed down, for which kubelet asks no preference.
    NeedsPreference,
    /// It cannot bind its socket where a killed one left the file.
    Leftover,
    /// It lists one device as unhealthy at most.
    OneUnhealthy,
    /// A device that was unhealthy once is for ever.
    StaysUnhealthy,
    /// A device that somebody has is always healthy.
    IgnoresHealthOfAllocated,
    /// It registers before it serves.
    ServesLate,
    /// It takes no notice of the end of its stream.
    IgnoresLostStream,
    /// It gives up after two seconds without a kubelet.
    GivesUp,
    /// It tells one kubelet from the next by the inode of its socket.
    Inode,
    /// Its ids are others after each registration.
    RenamesIds,
    /// Its ids are others after each start.
    RenamesIdsAtStart,
    /// It allocates what it preferred.
    AllocatesPreferred,
    /// It answers with a path that is not absolute.
    RelativePath,
    /// An id whose health changes is missing from a list.
    Flickers,
    /// It ends where another of it serves.
    SingleInstance,
    /// It registers when it starts, and never again.
    RegistersOnce,
}

impl Defect {
    /// By its name in the environment.
    pub(crate) fn named(name: &str) -> Self {
        let defects = EXPECTED.iter().map(|(defect, _)| *defect);
        defects.chain([Defect::Nothing]).find(|defect| format!("{defect:?}") == name).unwrap()
    }
}

/// Each defect with the cases that fail by it, by the beginnings of their names.
pub(crate) const EXPECTED: &[(Defect, &[&str])] = &[
    (Defect::FirstAllocate, &["Can schedule a pod that requires a device"]),
    (Defect::UnqualifiedCdi, &["can make a CDI device accessible"]),
    (Defect::NeedsPreference, &["Can schedule a pod with a restartable init container"]),
    (Defect::Leftover, &["when ListAndWatch fails after provisioning devices"]),
    (Defect::OneUnhealthy, &["will lower allocatable to a number of unhealthy devices"]),
    (
        Defect::StaysUnhealthy,
        &[
            "will set allocatable to zero when a single device became unhealthy and then back",
            "will set allocatable to zero when a single device became unhealthy, but capacity",
            "will lower allocatable to a number of unhealthy devices",
            "will report a Healthy and then Unhealthy single device",
            "No id vanishes from its list",
        ],
    ),
    (
        Defect::IgnoresHealthOfAllocated,
        &[
            "will set allocatable to zero when a single device became unhealthy, but capacity",
            "will report a Healthy and then Unhealthy single device",
            // It never learns of an end, and the device was somebody's.
            "No id vanishes from its list",
        ],
    ),
    (Defect::ServesLate, &["Is dialled back while its registration is open"]),
    (Defect::IgnoresLostStream, &["Registers again when its stream is ended"]),
    (Defect::GivesUp, &["Registers again when kubelet has removed the old sockets"]),
    (Defect::Inode, &["Registers again when kubelet.sock has the same inode"]),
    (Defect::RenamesIds, &["Keeps the ids that a restarted kubelet restores"]),
    (Defect::RenamesIdsAtStart, &["Keeps device plugin assignments after the device plugin has restarted"]),
    (Defect::AllocatesPreferred, &["Allocates what it is asked for"]),
    (Defect::RelativePath, &["Answers Allocate with what a container runtime can carry out"]),
    (Defect::Flickers, &["No id vanishes from its list"]),
    (
        Defect::SingleInstance,
        &["Device Plugin Multiple: Basic rollout", "Device Plugin Multiple: DP2 takes long time"],
    ),
    (
        Defect::RegistersOnce,
        &[
            "Keeps device plugin assignments across kubelet restarts",
            "Keeps device plugin assignments across pod and kubelet restarts",
            "Keeps device plugin assignments after kubelet restart and device plugin restart",
            "[OrphanedPods]",
            "should deploy pod consuming devices first but fail with admission error",
            "Registers again when its stream is ended",
            "Registers again when kubelet has removed the old sockets",
            "Registers again when kubelet.sock has the same inode",
            "Keeps the ids that a restarted kubelet restores",
        ],
    ),
];

/// The cases that no defect here is caught by, and why.
pub(crate) const OF_KUBELET: &[(&str, &str)] = &[
    (
        "Keeps device plugin assignments across pod restarts",
        "kubelet starts the container with what it was answered",
    ),
    ("will not attempt to admit the succeeded pod", "the plugin is away"),
    ("Does not keep device plugin assignments across node reboots", "the plugin is away"),
    ("when GetDevicePluginOptions fails", "the plugin that fails is the kit's"),
    ("when ListAndWatch fails immediately", "the plugin that fails is the kit's"),
    ("when device plugin is stopped", "the plugin is away"),
    ("will report a Device Status for the failed pod", "not applicable on the embedded cluster"),
    ("Device Plugin Multiple: DP2 changed its mind", "the first plugin serves all the time"),
];
