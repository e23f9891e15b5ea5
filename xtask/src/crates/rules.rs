//! Who may know whom: docs/architecture.md §2 as a table. Read by `arrows`.

/// What one crate may depend on.
pub(super) struct Row {
    /// The package's name.
    pub(super) name: &'static str,
    /// Workspace crates that it may link.
    pub(super) knows: &'static [&'static str],
    /// Workspace crates that its tests may use besides those; none: all of them.
    pub(super) tests_know: Option<&'static [&'static str]>,
    /// Packages that it must not reach, by whatever way.
    pub(super) never: &'static [&'static str],
}

impl Row {
    /// A crate whose tests may use every crate, and that may reach every package.
    const fn new(name: &'static str, knows: &'static [&'static str]) -> Row {
        Row { name, knows, tests_know: None, never: &[] }
    }

    /// A crate that is of use without Neuron: its tests know no more than testkit does.
    const fn of_testkit(name: &'static str, knows: &'static [&'static str]) -> Row {
        Row { name, knows, tests_know: Some(&["fake-cluster", "kubelet-api", "testkit-support"]), never: &[] }
    }
}

/// One row for every crate of the workspace.
pub(super) const ROWS: &[Row] = &[
    // Pure: no I/O, no async, no clock.
    Row {
        tests_know: Some(&["neuron-documented-rules"]),
        never: &["tokio", "kube", "k8s-openapi"],
        ..Row::new("neuron-core", &[])
    },
    // Judges production's candidate sets, so it knows nothing of them.
    Row { tests_know: Some(&[]), ..Row::new("neuron-documented-rules", &[]) },
    Row::of_testkit("kubelet-api", &[]),
    Row::new("runtime", &[]),
    Row::new("neuron-workload", &["fake-neuron-seccomp"]),
    // The suite. Its programs never know each other.
    Row::new("neuron-extender", &["neuron-core", "runtime"]),
    Row::new("neuron-device-plugin", &["neuron-core", "kubelet-api", "runtime"]),
    Row::new("fake-neuron", &["neuron-core", "runtime", "fake-neuron-seccomp"]),
    // The kernel's, and of Neuron no more than what a program asks by ioctl: the one crate of the programs that may hold `unsafe`.
    Row {
        tests_know: Some(&[]),
        never: &["tokio", "kube", "k8s-openapi"],
        ..Row::new("fake-neuron-seccomp", &[])
    },
    // Kubernetes, nothing of Neuron. `runtime` has no rules of ours either.
    Row::of_testkit("testkit-support", &[]),
    Row::of_testkit("libc-edge", &[]),
    Row::of_testkit("simulator", &["libc-edge", "runtime"]),
    Row::of_testkit("fake-cluster", &["kubelet-api", "runtime", "testkit-support"]),
    Row::of_testkit("simulated-cluster", &["fake-cluster", "kubelet-api", "runtime", "simulator"]),
    Row::of_testkit("kind-driver", &["kubelet-api", "testkit-support"]),
    Row::of_testkit("plugin-conformance", &["fake-cluster", "kind-driver", "kubelet-api", "testkit-support"]),
    // The harness. The engine knows neither kind nor the command line.
    Row::new(
        "neuron-e2e-engine",
        &[
            "neuron-core",
            "neuron-documented-rules",
            "neuron-extender",
            "neuron-device-plugin",
            "fake-neuron",
            "neuron-workload",
            "fake-cluster",
            "runtime",
            "testkit-support",
            "simulator",
        ],
    ),
    Row::new(
        "neuron-e2e-simulation",
        &[
            "neuron-core",
            "neuron-documented-rules",
            "neuron-extender",
            "neuron-device-plugin",
            "neuron-e2e-engine",
            "neuron-workload",
            "fake-cluster",
            "fake-neuron",
            "runtime",
            "simulated-cluster",
            "simulator",
        ],
    ),
    Row::new(
        "neuron-e2e-bench",
        &[
            "neuron-core",
            "neuron-extender",
            "neuron-e2e-engine",
            "fake-cluster",
            "kind-driver",
            "runtime",
            "testkit-support",
        ],
    ),
    Row::new(
        "neuron-e2e",
        &[
            "neuron-core",
            "neuron-device-plugin",
            "fake-neuron",
            "neuron-workload",
            "runtime",
            "neuron-e2e-engine",
            "neuron-e2e-simulation",
            "neuron-e2e-bench",
            "simulated-cluster",
            "simulator",
            "kind-driver",
            "plugin-conformance",
            "testkit-support",
        ],
    ),
    // What others can do with testkit.
    Row {
        tests_know: Some(&["fake-cluster", "testkit-support", "runtime", "simulated-cluster", "simulator"]),
        ..Row::of_testkit("other-extender", &[])
    },
    // Only tests, which know everybody; and chores, which know nobody.
    Row::new("snapshots", &[]),
    Row::new("image-tests", &[]),
    Row::new("docs", &[]),
    Row::new("xtask", &[]),
];
