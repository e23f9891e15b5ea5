//! `neuron-e2e cluster up`.

use anyhow::bail;
use clap::Args;
use fake_neuron::MachineSpec;
use kind_driver::unless_ended;
use neuron_core::catalog::Catalog;

use super::{DEFAULT_NAME, next, say, show};
use crate::kind::{OWNER, Options, Scheduling, needs, standing};
use crate::kind_arguments::{ImageArguments, node_image_of_environment};
use crate::report::colours::Paint;
use crate::view::client;
use crate::view::look::look;
use neuron_e2e_engine::scenario::NodeSpec;

/// Most nodes: each is a container that runs a kubelet.
const MOST_NODES: usize = 8;

/// How to make the cluster.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Instance type of each node, one to eight, such as `trn1.32xlarge,inf2.48xlarge`.
    #[arg(long, value_delimiter = ',', required = true, value_name = "TYPE,..")]
    nodes: Vec<String>,
    /// Name of the cluster.
    #[arg(long, default_value = DEFAULT_NAME)]
    name: String,
    /// Who asks the extender.
    #[arg(long, value_enum, default_value = "my-scheduler")]
    scheduling: Scheduling,
    /// Node image of the cluster; what NEURON_E2E_NODE_IMAGE says if not given.
    #[arg(long)]
    node_image: Option<String>,
    #[command(flatten)]
    images: ImageArguments,
}

/// Makes the cluster and says what to type next.
///
/// # Errors
/// A type that is not known, a cluster of that name, something that this machine lacks; nothing stays then.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let Arguments { nodes, name, scheduling, node_image, images } = arguments;
    let images = images.source();
    let node_image = node_image.or_else(node_image_of_environment);
    let nodes = checked(&nodes)?;
    if let Some(why) = needs::missing(node_image.as_deref(), &images, 1).await {
        bail!("{why}");
    }
    let you = next::program();
    if kind_driver::is_there(&name).await? {
        bail!(
            "cluster {name:?} is there already; look at it: `{you} cluster status{option}`, delete it: \
             `{you} cluster down{option}`, or make another: --name",
            option = next::name_option(&name)
        );
    }
    let options = Options {
        name: name.clone(),
        workers: nodes.len(),
        keep: false,
        node_image,
        images,
        feature_gates: Vec::new(),
    };
    unless_ended(standing::stand(&options, &nodes, scheduling)).await?;
    let client = client::client(Some(&OWNER.kubeconfig(&name)), None).await?;
    let drawing = show::text(&look(&client).await?, Paint::of_stdout());
    say(&format!("{drawing}\n{}\n", next::text(&name, &nodes, scheduling)))
}

fn checked(types: &[String]) -> anyhow::Result<Vec<NodeSpec>> {
    if types.len() > MOST_NODES {
        bail!("{} nodes are too many for one machine; give one to {MOST_NODES} types", types.len());
    }
    let checked = types.iter().map(|name| {
        let machine = MachineSpec { instance_type: name.clone(), lnc: None, instance_id: None, driver: None };
        machine.check(Catalog::embedded())?;
        Ok(NodeSpec::of(name))
    });
    checked.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_type_that_is_not_known_is_refused_with_those_that_look_like_it() {
        let error = checked(&names(&["trn1.32xlarge", "trn1.23xlarge"])).unwrap_err().to_string();
        assert_eq!(
            error,
            "instance type trn1.23xlarge is not known: did you mean one of trn1.2xlarge, trn1.32xlarge, \
             trn1n.32xlarge? `fake-neuron list --aliases` shows every name and takes types of your own with --catalog"
        );
    }

    #[test]
    fn nine_nodes_are_too_many() {
        let error = checked(&vec!["inf2.xlarge".to_owned(); 9]).unwrap_err().to_string();
        assert_eq!(error, "9 nodes are too many for one machine; give one to 8 types");
    }
}
