//! Clusters that outlive the program: made with their hardware, found again by name, taken down by name. Called by the
//! playground.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use tokio::time::Instant;

use super::phases::Phases;
use super::scheduling::{Route, Scheduling};
use super::{KindCluster, Options, guard, images, program};
use neuron_e2e_engine::scenario::NodeSpec;

/// Makes a cluster with a worker for each of these nodes, its hardware on it and the suite installed, and leaves it
/// standing. Whatever goes wrong, or if the future is dropped, nothing of it stays.
pub async fn stand(options: &Options, nodes: &[NodeSpec], scheduling: Scheduling) -> anyhow::Result<()> {
    // Kept by being released at the end: until then it is deleted like any other.
    let options = Options { workers: nodes.len(), keep: false, ..options.clone() };
    let phases = Phases::begin();
    images::build(options.skip_images).await?;
    phases.reached("images");
    let mut cluster = KindCluster::up_in(&options, &phases).await?;
    let furnished = nodes.iter().enumerate().map(|(place, spec)| cluster.become_node(place, spec));
    let began = Instant::now();
    let serves = async {
        cluster.schedule_by(scheduling, Route::Service).await.context("installing the suite")?;
        phases.done(format!("{}: suite serves", options.name), began);
        anyhow::Ok(())
    };
    let offered = async {
        try_join_all(furnished).await?;
        phases.done(format!("{}: devices offered", options.name), began);
        anyhow::Ok(())
    };
    if let Err(error) = tokio::try_join!(serves, offered) {
        return Err(cluster.with_evidence("installing", error).await);
    }
    phases.reached("all");
    cluster.guard.release();
    Ok(())
}

/// The kubeconfig of the cluster of that name, where a program of ours made it.
pub fn kubeconfig(name: &str) -> PathBuf {
    guard::folder(name).join("kubeconfig")
}

/// Whether kind has a cluster of that name, ours or not.
pub async fn is_there(name: &str) -> anyhow::Result<bool> {
    Ok(clusters().await?.iter().any(|other| other == name))
}

/// The clusters that a program of ours made, by name.
pub async fn ours() -> anyhow::Result<Vec<String>> {
    Ok(clusters().await?.into_iter().filter(|name| kubeconfig(name).exists()).collect())
}

/// Deletes the cluster of that name and its folder, and makes sure that both are gone. Errors: there is none, it is not
/// ours, something stays.
pub async fn take_down(name: &str) -> anyhow::Result<()> {
    let folder = guard::folder(name);
    match (is_there(name).await?, guard::scheduler_folder(name).exists()) {
        (false, false) => bail!("there is no cluster {name:?}; `kind get clusters` shows those there are"),
        (true, false) => bail!(
            "kind cluster {name:?} was not made by neuron-e2e: {} is not there; if it may go: kind delete cluster --name {name}",
            folder.display()
        ),
        (_, true) => {}
    }
    guard::delete(name).await?;
    let left = guard::left_behind(name).await?;
    if !left.is_empty() {
        bail!("left behind of cluster {name:?}: {}", left.join(", "));
    }
    Ok(())
}

async fn clusters() -> anyhow::Result<Vec<String>> {
    let names = program::output("kind", &["get", "clusters"]).await?;
    Ok(names.lines().map(str::to_owned).collect())
}
