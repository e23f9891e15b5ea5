//! The part of a command line that only runs on kind know. Called by [`crate::command`].

use std::path::PathBuf;

use clap::Args;

use crate::kind::{ImageSource, Options, Scheduling, needs};

/// What only runs on kind know.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "With --cluster kind")]
pub(crate) struct KindArguments {
    /// Who places the pods; both, one after the other, if not given.
    #[arg(long, value_enum, value_delimiter = ',')]
    pub(crate) scheduling: Vec<Scheduling>,
    /// Kind clusters side by side, at most: NAME, NAME-2, NAME-3. The first has as many workers as a scenario needs,
    /// the others one if that does. With three, two cores are busy and some 6 GiB of memory are used.
    #[arg(long, default_value_t = needs::CLUSTERS)]
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
    #[command(flatten)]
    images: ImageArguments,
    /// Fail where this machine cannot run kind, instead of skipping.
    #[arg(long)]
    pub(crate) require: bool,
}

/// Where the suite's images come from; built from the checkout that this program was built in where nothing is given.
#[derive(Clone, Debug, Args)]
#[group(multiple = false)]
pub(crate) struct ImageArguments {
    /// Do not build the suite's images again where Docker has them.
    #[arg(long)]
    skip_images: bool,
    /// The suite's images as a file that `docker save` made.
    #[arg(long, value_name = "FILE.tar")]
    images: Option<PathBuf>,
    /// A checkout of this project to build the suite's images from.
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
}

impl KindArguments {
    /// The schedulers, in the order in which they are taken.
    pub(crate) fn schedulings(&self) -> Vec<Scheduling> {
        if self.scheduling.is_empty() {
            vec![Scheduling::MyScheduler, Scheduling::Default]
        } else {
            self.scheduling.clone()
        }
    }

    /// How the clusters are made, with so many workers.
    pub(crate) fn options(self, workers: usize) -> Options {
        let KindArguments { name, keep, node_image, images, clusters: _, scheduling: _, require: _ } = self;
        let node_image = node_image.or_else(node_image_of_environment);
        Options { name, workers, keep, node_image, images: images.source(), feature_gates: Vec::new() }
    }
}

impl ImageArguments {
    /// Whether anything was.
    pub(crate) fn is_given(&self) -> bool {
        self.skip_images || self.images.is_some() || self.source.is_some()
    }

    /// What was given.
    pub(crate) fn source(self) -> ImageSource {
        match self {
            ImageArguments { images: Some(file), .. } => ImageSource::Archive(file),
            ImageArguments { source: Some(folder), .. } => ImageSource::Checkout(folder),
            ImageArguments { skip_images: true, .. } => ImageSource::Docker,
            ImageArguments { skip_images: false, .. } => ImageSource::Newest,
        }
    }
}

/// What NEURON_E2E_NODE_IMAGE says; none where it is empty. Not read by the command line's own means, by which an empty one
/// would be an image without a name.
pub(crate) fn node_image_of_environment() -> Option<String> {
    std::env::var(needs::NODE_IMAGE_VARIABLE).ok().filter(|image| !image.is_empty())
}
