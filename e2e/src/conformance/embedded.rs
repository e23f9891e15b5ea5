//! The cases on the embedded cluster, with a plugin that is a command. Called by [`super::run`].

use std::time::Duration;

use anyhow::Context as _;
use kind_driver::unless_ended;
use plugin_conformance::results::Row;
use plugin_conformance::{Case, EmbeddedNode, EmbeddedPlugin, run_embedded};
use testkit_support::Wait;

use super::arguments::Arguments;
use super::{own_plugin, progress};

/// Carries the cases out.
///
/// # Errors
/// The plugin does not advertise what it is said to.
pub(super) async fn run(arguments: Arguments, cases: &[&Case]) -> anyhow::Result<Vec<Row>> {
    let plugin = plugin(arguments)?;
    unless_ended(async {
        let node = EmbeddedNode::up(plugin).await.context("preparing the embedded cluster")?;
        Ok(run_embedded(&node, cases, progress).await)
    })
    .await
}

/// The plugin that was asked for.
fn plugin(arguments: Arguments) -> anyhow::Result<EmbeddedPlugin> {
    let takes_over_within = arguments.plugin.takes_over_within()?;
    let given = arguments.plugin;
    let mut plugin = match (arguments.embedded.plugin_command, given.resource, given.count) {
        (Some(command), Some(resource), Some(count)) => EmbeddedPlugin {
            unhealthy_command: given.unhealthy_command,
            healthy_command: given.healthy_command,
            takes_over_within,
            in_namespace: arguments.embedded.in_namespace,
            ..EmbeddedPlugin::new(command, resource, count)
        },
        _ => own_plugin::described()?,
    };
    if let Some(seconds) = arguments.embedded.timeout {
        plugin.wait = Wait { timeout: Duration::from_secs(seconds), ..plugin.wait };
    }
    Ok(plugin)
}
