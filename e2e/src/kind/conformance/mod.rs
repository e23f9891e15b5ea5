//! Kubernetes' own node e2e cases for device plugins (`test/e2e_node` of Kubernetes 1.34), with our plugin on a real
//! kubelet. One cluster with one worker; each case by its name in Kubernetes' words, its steps written anew for what
//! a harness outside the node can do. Called by the command line.

mod admission;
mod assignments;
mod cases;
mod command;
mod failures;
mod parts;
pub(super) mod pod_resources;
mod pod_status;
mod room;
pub mod row;

use anyhow::Context as _;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::session::{unless_ended, with_nothing_left};
use super::stage::Stage;
use super::{KindCluster, Options, Scheduling, doctor, guard};
pub use cases::CASES;
pub use command::{Arguments, run};
use neuron_e2e_engine::cluster::Cluster as _;
use neuron_e2e_engine::scenario::Scenario;
use neuron_e2e_engine::scenario::library;
use room::Room;
use row::{Row, Verdict};

/// What a cluster for these cases has on: health in a pod's status is alpha in Kubernetes 1.34.
const FEATURE_GATES: &[&str] = &["ResourceHealthStatus"];

/// One of Kubernetes' cases.
#[derive(Debug)]
pub struct Case {
    /// The file under `test/e2e_node` of Kubernetes.
    pub file: &'static str,
    /// Its name, in Kubernetes' words.
    pub name: &'static str,
    /// Instance type of the worker's fake hardware.
    hardware: &'static str,
    steps: for<'a> fn(&'a Room<'a>) -> BoxFuture<'a, anyhow::Result<Seen>>,
}

/// What a case that did not fail saw.
enum Seen {
    /// In one sentence.
    That(String),
    /// Nothing, and why.
    NotApplicable(String),
}

/// What came of a run.
enum Session {
    /// Every case was carried out.
    Ran(Vec<Row>),
    /// This machine lacks something; what, and what to do about it.
    Skipped(String),
}

/// Carries the cases out in order on one cluster, which is gone afterwards unless it is to be kept. With `grace` the
/// cases also wait for kubelet's five minutes. An error if a signal ended it, the cluster could not be had, or
/// something stayed behind.
async fn session(cases: &[&Case], options: Options, grace: bool) -> anyhow::Result<Session> {
    for finding in doctor::look(options.node_image.as_deref(), 1).await {
        if let Err(why) = finding.found {
            return Ok(Session::Skipped(format!("{}: {why}", finding.what)));
        }
    }
    let (name, keep) = (options.name.clone(), options.keep);
    let mut rows = unless_ended(all(cases, options, grace)).await;
    if !keep {
        rows = with_nothing_left(rows, guard::left_behind(&name)).await;
    }
    Ok(Session::Ran(rows?))
}

async fn all(cases: &[&Case], options: Options, grace: bool) -> anyhow::Result<Vec<Row>> {
    let cluster = KindCluster::up(&options).await?;
    let mut rows = Vec::new();
    for case in cases {
        let row = one(&cluster, case, grace).await;
        eprintln!("{} {:6.2} s  {}: {}", row.word(), row.seconds, row.case, row.seen);
        rows.push(row);
    }
    Ok(rows)
}

/// One case on a clean worker. What it stopped runs again afterwards, whatever came of it.
async fn one(cluster: &KindCluster, case: &Case, grace: bool) -> Row {
    let began = Instant::now();
    let (steps, result) = match prepared(cluster, case).await {
        Err(error) => (Vec::new(), Err(error)),
        Ok(stage) => {
            let room = Room::new(cluster, grace);
            let mut result = (case.steps)(&room).await;
            let failed = result.is_err();
            if let Err(error) = result {
                result = Err(cluster.with_evidence(&folder_name(case), error).await);
            }
            let mut tidied = room.tidy().await.context("tidying up");
            if tidied.is_ok() {
                tidied = stage.down().await.context("clearing the node");
            }
            if failed || tidied.is_err() {
                // The next case makes the hardware anew.
                cluster.set_staged(0, None).await;
            }
            let result = result.and_then(|seen| tidied.map(|()| seen));
            (room.into_steps(), result)
        }
    };
    let (result, seen) = match result {
        Ok(Seen::That(seen)) => (Verdict::Passed, seen),
        Ok(Seen::NotApplicable(why)) => (Verdict::NotApplicable, why),
        Err(error) => (Verdict::Failed, format!("{error:#}")),
    };
    let seconds = began.elapsed().as_secs_f64();
    Row { file: case.file, case: case.name, result, seen, steps, seconds }
}

/// The case's name without what a path would have to be quoted for.
fn folder_name(case: &Case) -> String {
    let words =
        case.name.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join("-").to_lowercase()
}

async fn prepared<'a>(cluster: &'a KindCluster, case: &Case) -> anyhow::Result<Stage<'a>> {
    let scenario = scenario(case)?;
    Stage::set(cluster, &scenario, Scheduling::MyScheduler).await.context("preparing the node")
}

/// One node with the case's hardware, and nothing to do.
fn scenario(case: &Case) -> anyhow::Result<Scenario> {
    let text = format!("about: {:?}\nnodes: [{{type: {}}}]\nsteps: []\n", case.name, case.hardware);
    library::parse("conformance", &text, &Default::default())?.into_iter().next().context("no scenario")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_has_a_plain_name() {
        assert_eq!(folder_name(&CASES[0]), "can-schedule-a-pod-that-requires-a-device");
    }

    #[test]
    fn every_case_has_a_node_to_run_on() {
        for case in CASES {
            assert_eq!(scenario(case).unwrap().nodes[0].instance_type, case.hardware);
        }
    }
}
