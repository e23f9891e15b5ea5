//! What somebody's cluster must not hold when a run begins: the suite, and pods where scenarios put theirs. Called by
//! this folder only.

use anyhow::{Context as _, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::{Api, ListParams};

use super::super::access::Access;
use super::super::install::SYSTEM;
use super::leave;
use crate::apply::OURS;
use crate::run::NAMESPACE;

/// An error that names everything that is in the way and says what to do about it.
pub(super) async fn look(access: &Access, client: &Client, context: &str) -> anyhow::Result<()> {
    let installed = leave::installed(access).await?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let others = ListParams::default().labels(&format!("{}!={}", OURS.0, OURS.1));
    let pods = pods.list_metadata(&others).await.context("listing pods")?;
    let pods: Vec<String> = pods.items.into_iter().filter_map(|pod| pod.metadata.name).collect();
    match refusal(context, &installed, &pods) {
        Some(why) => bail!("{why}"),
        None => Ok(()),
    }
}

/// Why a run must not begin; none if it may. `installed` are objects of the suite's names, as kubectl names them,
/// `pods` those of the scenarios' namespace that are not ours.
fn refusal(context: &str, installed: &[String], pods: &[String]) -> Option<String> {
    let mut why = Vec::new();
    if !installed.is_empty() {
        why.push(format!(
            "the suite is installed already, and not by this run: {0}; take it away (kubectl --context {context} -n \
             {SYSTEM} delete {1}) or use another cluster",
            installed.join(", "),
            installed.join(" "),
        ));
    }
    if !pods.is_empty() {
        why.push(format!(
            "scenarios run in namespace {NAMESPACE}, which holds pods that are not neuron-e2e's: {}; move or delete \
             them, or use another cluster",
            pods.join(", ")
        ));
    }
    (!why.is_empty()).then(|| format!("context {context:?} is left as it is: {}", why.join("; and ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_cluster_may_be_used() {
        assert_eq!(refusal("x", &[], &[]), None);
    }

    #[test]
    fn what_is_in_the_way_is_named_with_what_to_do() {
        let installed = ["deployment.apps/my-scheduler".to_owned(), "secret/my-scheduler-tls".to_owned()];
        let text = refusal("kind-x", &installed, &["shop".to_owned()]).unwrap();
        assert!(
            text.contains(
                "kubectl --context kind-x -n kube-system delete deployment.apps/my-scheduler secret/my-scheduler-tls"
            ),
            "{text}"
        );
        assert!(
            text.contains("namespace default, which holds pods that are not neuron-e2e's: shop"),
            "{text}"
        );
    }
}
