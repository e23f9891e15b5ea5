//! Clusters that outlive the program: made with their hardware, then left to whoever takes them down by name. Called by
//! the playground.

use anyhow::Context as _;
use futures::future::try_join_all;
use kind_driver::phases::Phases;
use neuron_e2e_engine::scenario::NodeSpec;
use tokio::time::Instant;

use super::cluster::scheduling::{Scheduling, Setup};
use super::{KindCluster, Options};

/// Makes a cluster with a worker for each of these nodes, its hardware on it and the suite installed, and leaves it
/// standing. Whatever goes wrong, or if the future is dropped, nothing of it stays.
///
/// # Errors
/// The images cannot be had, the cluster not be made, or the suite does not come to serve.
pub async fn stand(options: &Options, nodes: &[NodeSpec], scheduling: Scheduling) -> anyhow::Result<()> {
    // Kept by being released at the end: until then it is deleted like any other.
    let options = Options { workers: nodes.len(), keep: false, ..options.clone() };
    let phases = Phases::begin();
    let images = options.images.ready().await?;
    phases.reached("images");
    let cluster = KindCluster::up(&options, &images, &phases).await?;
    let furnished = nodes.iter().enumerate().map(|(place, spec)| cluster.become_node(place, spec));
    let began = Instant::now();
    let serves = async {
        cluster.schedule_by(Setup::deployed(scheduling)).await.context("installing the suite")?;
        phases.done(format!("{}: suite serves", options.name), began);
        anyhow::Ok(())
    };
    let advertised = async {
        try_join_all(furnished).await?;
        phases.done(format!("{}: devices advertised", options.name), began);
        anyhow::Ok(())
    };
    if let Err(error) = tokio::try_join!(serves, advertised) {
        return Err(cluster.with_evidence("installing", error).await);
    }
    phases.reached("all");
    cluster.release_to_user();
    Ok(())
}
