//! `kind create cluster`, several times where needed. Called by [`super::Cluster::up`].

use anyhow::Context as _;
use tokio::sync::Semaphore;

use crate::config::{KindConfig, SCHEDULER_FILE};
use crate::guard::Guard;
use crate::{Options, Owner, node_image, program, report};

/// Times a cluster is tried to be made. kind waits 30 s for a node that unpacks its images first: too short for a slow
/// disk that has to be read (seen twice in a row, once).
const TRIES: usize = 4;

/// Whose turn it is to be made.
static CREATING: Semaphore = Semaphore::const_new(1);

/// Makes the cluster, whose folder is there and empty.
pub(super) async fn create(owner: Owner, options: &Options, guard: &Guard) -> anyhow::Result<()> {
    if let Some(text) = &options.scheduler_configuration {
        let path = owner.scheduler_folder(&options.name).join(SCHEDULER_FILE);
        tokio::fs::write(&path, text).await.with_context(|| format!("writing {}", path.display()))?;
    }
    let config = KindConfig::new(owner, options)?.to_yaml()?;
    let image = options.node_image.as_deref().unwrap_or(node_image::DEFAULT);
    let (name, kubeconfig) = (&options.name, guard.kubeconfig());
    let mut arguments = vec!["create", "cluster", "--name", name, "--image", image];
    arguments.extend(["--kubeconfig", &kubeconfig, "--config", "-"]);
    // One after the other: a machine that is busy with the next one's images and containers lets kind's own short
    // waits for the first one run out. Other things may keep it busy, so several times.
    let _turn = CREATING.acquire().await?;
    for time in 1.. {
        match program::output_from("kind", &arguments, &config).await {
            Err(error) if time < TRIES => {
                let failed =
                    format_args!("cluster {name} could not be made, try {time} of {TRIES}: {error:#}");
                report::line(failed);
                program::output("kind", &["delete", "cluster", "--name", name]).await?;
            }
            Err(error) => return Err(error),
            Ok(_) => break,
        }
    }
    guard.set_complete()
}

/// The cluster's control planes and its workers; neither where there is no such cluster.
pub(super) async fn nodes_of(name: &str) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let nodes = program::output("kind", &["get", "nodes", "--name", name]).await?;
    let (control_planes, mut workers): (Vec<String>, Vec<String>) =
        nodes.lines().map(str::to_owned).partition(|node| node.ends_with("-control-plane"));
    workers.sort();
    Ok((control_planes, workers))
}
