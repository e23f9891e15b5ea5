//! The command line of `neuron-e2e conformance`, and what of it does not go together.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use crate::command::ClusterKind;
use crate::kind_arguments::ImageArguments;
use crate::report::Output;

const EMBEDDED: &str = "With --cluster embedded";
const KIND: &str = "With --cluster kind";
const PLUGIN: &str = "Another plugin than ours";

/// The command line of `neuron-e2e conformance`.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Cases, by any part of their names; all of them if none is given.
    #[arg(value_name = "CASE")]
    pub(super) cases: Vec<String>,
    /// Where kubelet is: in this process, with its sockets in a temporary folder, or real in Docker.
    #[arg(long, value_enum, default_value_t)]
    pub(super) cluster: ClusterKind,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    pub(super) output: Output,
    /// Also write what came of them to this file, as JUnit's XML.
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    #[command(flatten)]
    pub(super) plugin: PluginArguments,
    #[command(flatten)]
    pub(super) embedded: EmbeddedArguments,
    #[command(flatten)]
    pub(super) kind: KindArguments,
}

/// What there is to know of a plugin that is not ours.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = PLUGIN)]
pub(super) struct PluginArguments {
    /// The extended resource that it advertises, such as vendor.example/device: one is one device.
    #[arg(long, value_name = "NAME")]
    pub(super) resource: Option<String>,
    /// How many devices it advertises.
    #[arg(long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Shell command that makes a device unhealthy, on kind in the node: {device} is its id (embedded), {index} its place among
    /// them, from 0. Cases that need it are not applicable without.
    #[arg(long, value_name = "COMMAND", requires = "healthy_command")]
    pub(super) unhealthy_command: Option<String>,
    /// Shell command that makes the device healthy again.
    #[arg(long, value_name = "COMMAND", requires = "unhealthy_command")]
    pub(super) healthy_command: Option<String>,
    /// Seconds that a node may be without devices while one of two plugins takes over, 0 where both serve side by side. The
    /// cases with two plugins on a node are not applicable without.
    #[arg(long, value_name = "SECONDS")]
    pub(super) takes_over_within: Option<f64>,
}

/// What only the embedded cluster knows.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = EMBEDDED)]
pub(super) struct EmbeddedArguments {
    /// Shell command that starts the plugin: {plugins-dir} is kubelet's folder of plugin sockets, {kubelet-dir} the folder above,
    /// {folder} one of the plugin's own, {kubeconfig} a way to the API server, {node} the node's name, {count} how many devices
    /// it is to have. With {count} the cases of one device are applicable too.
    #[arg(long, value_name = "COMMAND", requires = "resource", requires = "count")]
    pub(super) plugin_command: Option<String>,
    /// Run the plugin in a user and mount namespace with kubelet's folder at /var/lib/kubelet, where it has that compiled in.
    #[arg(long, requires = "plugin_command")]
    pub(super) in_namespace: bool,
    /// Seconds that a case waits for what should come [default: 30].
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(super) timeout: Option<u64>,
}

/// What only kind knows.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = KIND)]
pub(super) struct KindArguments {
    /// The plugin's manifests: one DaemonSet and what it needs.
    #[arg(long, value_name = "FILE", requires = "resource", requires = "count")]
    pub(super) plugin_manifest: Option<PathBuf>,
    /// Image of Docker's that the cluster's nodes are given; the plugin's, where they cannot pull it.
    #[arg(long, value_name = "IMAGE", requires = "plugin_manifest")]
    pub(super) load_image: Vec<String>,
    /// Image of the cases' containers, with sh, env, grep, sort, ls and sleep [default: busybox:1.37].
    #[arg(long, value_name = "IMAGE", requires = "plugin_manifest")]
    pub(super) container_image: Option<String>,
    /// Also wait for the five minutes after which kubelet forgets the capacity of a plugin that is gone.
    #[arg(long)]
    pub(super) grace: bool,
    /// Name of the kind cluster [default: neuron-e2e-conformance].
    #[arg(long)]
    pub(super) name: Option<String>,
    /// Leave the cluster running, and use one that an earlier run of this command left.
    #[arg(long)]
    pub(super) keep: bool,
    /// Node image of the cluster; what NEURON_E2E_NODE_IMAGE says if not given.
    #[arg(long)]
    pub(super) node_image: Option<String>,
    #[command(flatten)]
    pub(super) images: ImageArguments,
    /// Fail where this machine cannot run kind, instead of skipping.
    #[arg(long)]
    pub(super) require: bool,
}

impl Arguments {
    /// Checks what does not go together.
    ///
    /// # Errors
    /// The flag that has no use, and what to do.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        let Arguments { plugin, embedded, kind, .. } = self;
        let embedded_only = [
            ("--plugin-command", embedded.plugin_command.is_some()),
            ("--in-namespace", embedded.in_namespace),
            ("--timeout", embedded.timeout.is_some()),
        ];
        let kind_only = [
            ("--plugin-manifest", kind.plugin_manifest.is_some()),
            ("--load-image", !kind.load_image.is_empty()),
            ("--container-image", kind.container_image.is_some()),
            ("--grace", kind.grace),
            ("--name", kind.name.is_some()),
            ("--keep", kind.keep),
            ("--node-image", kind.node_image.is_some()),
            ("--skip-images, --images or --source", kind.images.is_given()),
            ("--require", kind.require),
        ];
        let (others, there, what) = match self.cluster {
            ClusterKind::Embedded => (&kind_only[..], "kind", "--plugin-command"),
            ClusterKind::Kind => (&embedded_only[..], "embedded", "--plugin-manifest"),
        };
        if let Some((flag, _)) = others.iter().find(|(_, given)| *given) {
            bail!("{flag} works with --cluster {there} only");
        }
        let of_another = [
            ("--resource", plugin.resource.is_some()),
            ("--count", plugin.count.is_some()),
            ("--unhealthy-command", plugin.unhealthy_command.is_some()),
            ("--takes-over-within", plugin.takes_over_within.is_some()),
        ];
        let is_ours = embedded.plugin_command.is_none() && kind.plugin_manifest.is_none();
        if let Some((flag, _)) = of_another.iter().find(|(_, given)| is_ours && *given) {
            bail!("{flag} is of another plugin than ours: give {what} too");
        }
        if plugin.count == Some(0) {
            bail!("--count 0: a plugin without devices is not tested");
        }
        plugin.takes_over_within()?;
        Ok(())
    }
}

impl PluginArguments {
    /// How long a node may be without devices while one of two plugins takes over.
    pub(super) fn takes_over_within(&self) -> anyhow::Result<Option<Duration>> {
        let time = self.takes_over_within.map(Duration::try_from_secs_f64).transpose();
        match time {
            Ok(time) => Ok(time),
            Err(_) => bail!("--takes-over-within is a number of seconds from 0 on"),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use rstest::rstest;

    use super::*;

    #[derive(Debug, Parser)]
    struct Program {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn checked(line: &str) -> Result<(), String> {
        let words = std::iter::once("program").chain(line.split_whitespace());
        let program = Program::try_parse_from(words).map_err(|error| error.to_string())?;
        program.arguments.check().map_err(|error| error.to_string())
    }

    const TOY: &str = "--resource a/b --count 2";

    #[rstest]
    #[case("--keep", "--keep works with --cluster kind only")]
    #[case("--cluster kind --timeout 3", "--timeout works with --cluster embedded only")]
    #[case(TOY, "--resource is of another plugin than ours: give --plugin-command too")]
    #[case(
        "--cluster kind --takes-over-within 1",
        "--takes-over-within is of another plugin than ours: give --plugin-manifest too"
    )]
    #[case(
        "--plugin-command p --resource a/b --count 0",
        "--count 0: a plugin without devices is not tested"
    )]
    #[case(
        "--plugin-command p --resource a/b --count 1 --takes-over-within=-1",
        "--takes-over-within is a number of seconds from 0 on"
    )]
    fn what_does_not_go_together_is_named(#[case] line: &str, #[case] why: &str) {
        assert_eq!(checked(line), Err(why.to_owned()));
    }

    #[rstest]
    #[case("--plugin-command p", "--resource")]
    #[case("--plugin-command p --resource a/b", "--count")]
    #[case("--plugin-command p --resource a/b --count 2 --unhealthy-command u", "--healthy-command")]
    #[case("--cluster kind --load-image i", "--plugin-manifest")]
    fn what_is_missing_is_named(#[case] line: &str, #[case] flag: &str) {
        let why = checked(line).unwrap_err();
        assert!(why.contains("required") && why.contains(flag), "{why}");
    }

    #[rstest]
    #[case("")]
    #[case("--cluster kind --keep --require --skip-images --grace")]
    #[case("--plugin-command p --resource a/b --count 2 --in-namespace --takes-over-within 0.5")]
    #[case("--cluster kind --plugin-manifest f --resource a/b --count 2 --load-image i --container-image c")]
    fn what_goes_together_is_taken(#[case] line: &str) {
        assert_eq!(checked(line), Ok(()));
    }
}
