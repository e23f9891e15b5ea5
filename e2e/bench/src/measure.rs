//! The measurement from beginning to end: what it needs, the rounds, nothing left, the report.

use anyhow::bail;
use clap::Args;
use kind_driver::doctor::{self, Needs};
use kind_driver::{Owner, unless_ended, with_nothing_left};

use super::report::Report;
use super::rounds::{self, Size};
use super::variant::{Form, Variant};

/// Memory that the cluster and kwok need, in MiB.
const MEMORY: u64 = 3072;
/// Devices of a node.
const DEVICES: usize = 16;

/// What is measured, and on which cluster.
#[derive(Clone, Debug, Args)]
pub struct MeasureArguments {
    /// How many trn1.32xlarge nodes, kept alive by kwok.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub nodes: u16,
    /// How many pods wait, each for one device.
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u16).range(2..=16000))]
    pub pods: u16,
    /// How often everything is measured; medians need some.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub rounds: u16,
    /// Measure only what an extender costs that is sent this of nodes; both if not given.
    #[arg(long, value_enum)]
    pub form: Option<Form>,
    /// Measure only this variant; may be given several times. All are measured if none is given.
    #[arg(long = "variant", value_enum)]
    pub variants: Vec<Variant>,
    /// Name of the kind cluster.
    #[arg(long, default_value = "neuron-bench")]
    pub name: String,
    /// Node image of the cluster; what NEURON_E2E_NODE_IMAGE says if not given.
    #[arg(long)]
    pub node_image: Option<String>,
}

impl Default for MeasureArguments {
    fn default() -> Self {
        let (form, node_image) = (None, None);
        let (name, variants) = ("neuron-bench".to_owned(), Vec::new());
        Self { nodes: 100, pods: 1000, rounds: 3, form, variants, name, node_image }
    }
}

/// What the caller has set for all its clusters.
#[derive(Clone, Debug)]
pub struct Setting<'a> {
    /// Whose cluster it is.
    pub owner: Owner,
    /// The node image where the arguments name none; kind's own if not given.
    pub node_image: Option<String>,
    /// What a user sets to name another one.
    pub node_image_setting: &'a str,
}

/// What came of it.
#[derive(Debug)]
pub enum Measurement {
    /// It was measured.
    Done(Box<Report>),
    /// This machine lacks something; what, and what to do about it.
    Lacking(String),
}

/// Measures on a cluster that is made for it and is gone afterwards.
///
/// # Errors
/// More pods than devices, no variant, a signal ended it, a run failed, or something stayed behind.
pub async fn measure(arguments: MeasureArguments, setting: Setting<'_>) -> anyhow::Result<Measurement> {
    let MeasureArguments { nodes, pods, rounds, form, variants, name, node_image } = arguments;
    let node_image = node_image.or(setting.node_image);
    let size = Size { nodes: nodes.into(), pods: pods.into(), rounds: rounds.into(), form, only: variants };
    if Variant::order(0, size.form, &size.only).is_empty() {
        bail!("none of the variants is of the form that --form names; leave --form out");
    }
    let devices = size.nodes * DEVICES;
    if size.pods > devices {
        bail!("{nodes} nodes have {devices} devices, {pods} pods ask for more; give more --nodes");
    }
    let mut findings = doctor::look(Needs {
        node_image: node_image.as_deref(),
        node_image_setting: setting.node_image_setting,
        clusters: 1,
        memory: MEMORY,
        memory_remedy: None,
    })
    .await;
    findings.push(doctor::kwok().await);
    if let Some(why) = doctor::missing(&findings) {
        return Ok(Measurement::Lacking(why));
    }
    let report = unless_ended(rounds::measure(setting.owner, &name, node_image, size)).await;
    let report = with_nothing_left(report, setting.owner.left_behind(&name)).await?;
    Ok(Measurement::Done(Box::new(report)))
}
