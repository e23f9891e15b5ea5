//! The kit's cases with this plugin as a process, and a kubelet in this one: what `neuron-e2e conformance --plugin-command` does.

use plugin_conformance::results::{CaseResult, failures, summary};
use plugin_conformance::{CASES, EmbeddedNode, EmbeddedPlugin, run_embedded};

#[tokio::test(flavor = "multi_thread")]
async fn the_kits_cases_pass() -> anyhow::Result<()> {
    let program = env!("CARGO_BIN_EXE_toy-device-plugin");
    let plugin = EmbeddedPlugin {
        unhealthy_command: Some(
            "mkdir -p {folder}/unhealthy && touch {folder}/unhealthy/{device}".to_owned(),
        ),
        healthy_command: Some("rm -f {folder}/unhealthy/{device}".to_owned()),
        ..EmbeddedPlugin::new(
            format!("'{program}' --socket-dir {{plugins-dir}} --unhealthy-dir {{folder}}/unhealthy"),
            "example.com/pair",
            4,
        )
    };
    let node = EmbeddedNode::up(plugin).await?;
    let rows = run_embedded(&node, &CASES.iter().collect::<Vec<_>>(), |_| {}).await;
    assert!(rows.iter().all(|row| row.result != CaseResult::Failed), "{}", failures(&rows));
    assert!(rows.iter().filter(|row| row.result == CaseResult::Passed).count() > 20, "{}", summary(&rows));
    Ok(())
}
