//! The part of a command line that only runs on kind know. Called by [`crate::command`].

use clap::Args;

use crate::kind::{self, Scheduling};

/// What only runs on kind know.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With --cluster kind")]
pub(crate) struct KindArguments {
    /// Who places the pods; both, one after the other, if not given.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) scheduling: Vec<Scheduling>,
    /// Kind clusters side by side, at most: NAME, NAME-2, NAME-3. The first has as many workers as a scenario needs,
    /// the others one if that does. With three, two cores are busy and some 6 GiB of memory are used.
    #[arg(long, default_value_t = kind::pool::CLUSTERS)]
    pub(crate) clusters: usize,
    /// Name of the kind clusters.
    #[arg(long, default_value = "neuron-e2e")]
    name: String,
    /// Leave the clusters running, and use those that an earlier run left.
    #[arg(long)]
    keep: bool,
    /// Node image of the clusters; what NEURON_E2E_NODE_IMAGE says if not given.
    #[arg(long)]
    node_image: Option<String>,
    /// Do not build the suite's images again where they are there.
    #[arg(long)]
    pub(crate) skip_images: bool,
    /// Fail where this machine cannot run kind, instead of skipping.
    #[arg(long)]
    pub(crate) require: bool,
}

impl KindArguments {
    /// The ways of scheduling, in the order in which they are taken.
    pub(crate) fn ways(&self) -> Vec<Scheduling> {
        let asked = self.scheduling.clone();
        if asked.is_empty() { vec![Scheduling::MyScheduler, Scheduling::Default] } else { asked }
    }

    /// How the clusters are made, with so many workers.
    pub(crate) fn options(self, workers: usize) -> kind::Options {
        let KindArguments { name, keep, node_image, skip_images, clusters: _, scheduling: _, require: _ } =
            self;
        let node_image = node_image.or_else(node_image_of_environment);
        kind::Options { name, workers, keep, node_image, skip_images, feature_gates: &[] }
    }
}

/// What NEURON_E2E_NODE_IMAGE says; none where it is empty. Not read by the command line's own means: set for other
/// runs, it must not conflict with `--use`, and empty it would be an image without a name.
pub(crate) fn node_image_of_environment() -> Option<String> {
    std::env::var("NEURON_E2E_NODE_IMAGE").ok().filter(|image| !image.is_empty())
}
