//! What `run`, `fuzz` and `conformance` share: the choice of the cluster, and what follows from it. Called by them.

use std::process::ExitCode;

use anyhow::bail;
use clap::ValueEnum;

use crate::report::print;

/// Above what only runs on the embedded cluster know.
pub(super) const EMBEDDED_HEADING: &str = "With --cluster embedded";

/// What takes the place of `--jobs` on kind.
pub(super) const SIDE_BY_SIDE: &str = "give --clusters, how many clusters work side by side";

/// Why `--catalog` does not work on kind.
pub(super) const CATALOG_ON_KIND: &str = "the suite is deployed there with the types in its images";

/// Why `--kubernetes` does not work on kind.
pub(super) const VERSION_ON_KIND: &str =
    "the node image decides there, --node-image or NEURON_E2E_NODE_IMAGE";

/// The cluster that carries scenarios or cases out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ClusterKind {
    /// In this process.
    #[default]
    Embedded,
    /// Real Kubernetes in Docker.
    Kind,
}

/// An error that names the first flag that was given and that kind has no use for. Each is a name, whether it was given,
/// and why kind cannot do it.
pub(super) fn refuse_embedded_only(flags: &[(&str, bool, &str)]) -> anyhow::Result<()> {
    match flags.iter().find(|(_, given, _)| *given) {
        Some((flag, _, why)) => bail!("{flag} works with --cluster embedded only: {why}"),
        None => Ok(()),
    }
}

/// What to do where this machine lacks something: a failure only if it is required.
pub(super) fn skipped(why: &str, require: bool) -> anyhow::Result<ExitCode> {
    if require {
        bail!("{why}");
    }
    print::line(format_args!("skipped: {why}"))?;
    Ok(ExitCode::SUCCESS)
}
