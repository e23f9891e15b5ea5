//! The cases on a kind cluster: with our plugin as the suite installs it, or with another by its manifests. Called by
//! [`super::run`].

use anyhow::{Context as _, bail};
use kind_driver::phases::Phases;
use kind_driver::{Cluster, images, unless_ended, with_nothing_left};
use plugin_conformance::results::Row;
use plugin_conformance::{Case, FEATURE_GATES, ManifestPlugin};
use tokio::time::Instant;

use super::arguments::{Arguments, KindArguments};
use super::neuron_on_kind::NeuronPlugin;
use super::progress;
use crate::kind::{KindCluster, OWNER, Options, needs};
use crate::kind_arguments::node_image_of_environment;
use crate::report::print;

/// Name of the cluster, unless another is given.
const NAME: &str = "neuron-e2e-conformance";
/// Image of the cases' containers beside a plugin of which nothing is known.
const CONTAINER_IMAGE: &str = "busybox:1.37";

/// Carries the cases out. None where this machine cannot, and need not.
///
/// # Errors
/// The cluster or the plugin does not come up, or something is left behind.
pub(super) async fn run(arguments: Arguments, cases: &[&Case]) -> anyhow::Result<Option<Vec<Row>>> {
    let other = other_plugin(&arguments)?;
    let KindArguments { grace, name, keep, node_image, images, require, load_image, .. } = arguments.kind;
    let node_image = node_image.or_else(node_image_of_environment);
    let feature_gates = FEATURE_GATES.map(str::to_owned).to_vec();
    let name = name.unwrap_or_else(|| NAME.to_owned());
    let options = Options { name, workers: 1, keep, node_image, images: images.source(), feature_gates };
    let missing = match &other {
        None => needs::missing(options.node_image.as_deref(), &options.images, 1).await,
        Some(_) => kind_driver::doctor::missing(&needs::look(options.node_image.as_deref(), 1).await),
    };
    match missing {
        Some(why) if require => bail!("{why}"),
        Some(why) => {
            print::line(format_args!("skipped: {why}"))?;
            return Ok(None);
        }
        None => {}
    }
    let mut rows = match other {
        None => unless_ended(ours(cases, &options, grace)).await,
        Some(plugin) => unless_ended(another(plugin, &load_image, cases, &options, grace)).await,
    };
    if !keep {
        rows = with_nothing_left(rows, OWNER.left_behind(&options.name)).await;
    }
    Ok(Some(rows?))
}

/// The plugin of `--plugin-manifest`.
fn other_plugin(arguments: &Arguments) -> anyhow::Result<Option<ManifestPlugin>> {
    let given = &arguments.plugin;
    let (Some(file), Some(resource), Some(count)) =
        (&arguments.kind.plugin_manifest, &given.resource, given.count)
    else {
        return Ok(None);
    };
    let manifests = std::fs::read_to_string(file)
        .with_context(|| format!("cannot read {} (--plugin-manifest)", file.display()))?;
    let image = arguments.kind.container_image.clone();
    Ok(Some(ManifestPlugin {
        manifests,
        resource: resource.clone(),
        count,
        container_image: image.unwrap_or_else(|| CONTAINER_IMAGE.to_owned()),
        unhealthy_command: given.unhealthy_command.clone(),
        healthy_command: given.healthy_command.clone(),
        takes_over_within: given.takes_over_within()?,
    }))
}

/// Our plugin on a cluster with the suite, which is gone afterwards unless it is to be kept.
async fn ours(cases: &[&Case], options: &Options, grace: bool) -> anyhow::Result<Vec<Row>> {
    let phases = Phases::begin();
    let images = options.images.ready().await?;
    phases.reached("images");
    let cluster = KindCluster::up(options, &images, &phases).await?;
    let began = Instant::now();
    if let Err(error) = cluster.installed().await.context("installing the suite") {
        return Err(cluster.with_evidence("installing", error).await);
    }
    phases.done(format!("{}: suite serves", options.name), began);
    let plugin = NeuronPlugin::on(&cluster);
    plugin_conformance::run(cluster.driver(), &plugin, cases, grace, progress).await
}

/// Another plugin on a cluster that has nothing else.
async fn another(
    plugin: ManifestPlugin,
    load: &[String],
    cases: &[&Case],
    options: &Options,
    grace: bool,
) -> anyhow::Result<Vec<Row>> {
    let Options { name, workers, keep, node_image, feature_gates, .. } = options.clone();
    let options =
        kind_driver::Options { workers, keep, node_image, feature_gates, ..kind_driver::Options::new(&name) };
    let cluster = Cluster::up(OWNER, &options).await?;
    if !load.is_empty() {
        let names: Vec<&str> = load.iter().map(String::as_str).collect();
        let archive = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
        images::pack(&names, archive.path()).await.context("packing the images of --load-image")?;
        images::load(cluster.name(), archive.path()).await?;
    }
    let plugin = plugin.install(&cluster).await?;
    plugin_conformance::run(&cluster, &plugin, cases, grace, progress).await
}
