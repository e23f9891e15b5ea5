//! Whether a suite that is installed works: a handful of pods on an existing cluster, real hardware or fake. Installs and
//! relabels nothing; its pods are deleted afterwards, also after a signal or a failure. Called by `neuron-e2e verify` and
//! by tests, which give a client of their own and send no signals.

mod check;
mod nodes;
mod parts;
mod pods;
mod requests;
mod sets;

use anyhow::Context as _;
use kube::Client;
use kube::api::{Api, ListParams};
use testkit_support::Wait;

use crate::view::View;
use check::Checks;
pub use check::{Check, CheckResult, line, summary};
use pods::Pods;
use requests::Plan;

/// What is verified, and with which pods.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The pods' image: `neuron-workload` under whatever name the cluster can pull it.
    pub image: String,
    /// The pods' namespace.
    pub namespace: String,
    /// The scheduler that the pods name.
    pub scheduler: String,
    /// Only nodes with this label are looked at and given pods; all Neuron nodes if not given.
    pub node_label: Option<(String, String)>,
    /// How long one pod, or one part, may take.
    pub wait: Wait,
}

/// Carries every check out, in order; each is given to `progress` once it is there. It is broken off when `signalled` returns,
/// which says why.
///
/// # Errors
/// The API server does not answer, it was broken off, or pods could not be deleted; what was seen until then has been
/// reported as progress.
pub async fn verify(
    client: &Client,
    settings: &Settings,
    signalled: impl Future<Output = anyhow::Error>,
    progress: impl Fn(&Check),
) -> anyhow::Result<Vec<Check>> {
    let pods = Pods::new(client, settings);
    let mut checks = Checks::new(progress);
    let result = tokio::select! {
        biased;
        why = signalled => Err(why),
        result = carry_out(client, settings, &pods, &mut checks) => result,
    };
    let removed = pods.remove().await.map(|count| match count {
        0 => "no pod was made".to_owned(),
        1 => "1 pod".to_owned(),
        _ => format!("{count} pods"),
    });
    match (result, removed) {
        (Ok(()), removed) => {
            checks.add("everything deleted again", removed);
            Ok(checks.into_vec())
        }
        (Err(error), Ok(_)) => Err(error),
        (Err(error), Err(left)) => Err(error.context(format!("{left:#}"))),
    }
}

async fn carry_out(
    client: &Client,
    settings: &Settings,
    pods: &Pods<'_>,
    checks: &mut Checks<impl Fn(&Check)>,
) -> anyhow::Result<()> {
    let listed = Listed::of(client).await?;
    parts::check(&listed, &settings.scheduler, checks);
    let view = View::of(&listed.nodes, &listed.pods, &[]);
    let chosen = nodes::check(&listed, &view, settings, checks);
    let plan = Plan::of(&chosen, &view);
    sets::check(&plan, pods, &view, checks).await;
    requests::check_unsupported(&plan, pods, checks).await;
    Ok(())
}

/// Everything of the cluster that is looked at before pods are made.
struct Listed {
    nodes: Vec<k8s_openapi::api::core::v1::Node>,
    pods: Vec<k8s_openapi::api::core::v1::Pod>,
}

impl Listed {
    async fn of(client: &Client) -> anyhow::Result<Self> {
        let (nodes, pods) = (Api::all(client.clone()), Api::all(client.clone()));
        let all = ListParams::default();
        let listed = tokio::try_join!(nodes.list(&all), pods.list(&all));
        let (nodes, pods) = listed.context("listing nodes and pods")?;
        Ok(Self { nodes: nodes.items, pods: pods.items })
    }
}
