//! Makes somebody's cluster one that scenarios run on: the stay written down, images, the suite. Called by this folder;
//! what went wrong with images also by `session`.

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ListParams};
use tokio::sync::{Mutex, OnceCell};
use tokio::time::Instant;

use super::super::access::Access;
use super::super::hardware::generation;
use super::super::install::SYSTEM;
use super::super::nodes::{in_container, proxy_rule};
use super::super::phases::Phases;
use super::super::scheduling::Route;
use super::super::stage::route;
use super::super::{KindCluster, Owner, gateway, images};
use super::containers::Containers;
use super::leave;
use super::tenant::{Stay, Tenant};
use crate::proxy::Proxy;
use crate::run::NAMESPACE;
use crate::scenario::Scenario;

/// Why kubelet waits with a container whose image it does not have.
const NO_IMAGE: [&str; 4] = ["ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName"];

/// The cluster's nodes.
pub(super) async fn nodes(client: &Client) -> anyhow::Result<Vec<Node>> {
    let nodes: Api<Node> = Api::all(client.clone());
    Ok(nodes.list(&ListParams::default()).await.context("listing nodes")?.items)
}

impl KindCluster {
    /// Installs the suite on the cluster, for these scenarios. Nothing is changed in it before it is written down
    /// there; dropped, or with an error, it takes everything away.
    pub(super) async fn move_in(
        access: &Access,
        context: &str,
        workers: &[String],
        containers: &Containers,
        scenarios: &[Scenario],
        phases: &Phases,
    ) -> anyhow::Result<Self> {
        let mut began = Instant::now();
        let client = access.client().await?;
        // Where no call is held nobody calls it.
        let holds = scenarios.iter().any(|scenario| route(scenario) == Route::Proxy);
        let proxy = if holds { Proxy::start_at(&gateway().await?).await? } else { Proxy::start().await? };
        let proxied = if holds { containers.names() } else { Vec::new() };
        let address = proxy.address().ip().to_string();
        let rule = (address.clone(), without_rule(&proxied, &address).await?);
        let nodes = nodes(&client).await?;
        let used = |node: &&Node| node.metadata.name.as_ref().is_some_and(|name| workers.contains(name));
        let shells = workers.iter().filter(|worker| containers.has(worker)).cloned().collect();
        let stay = Stay::new(&nodes.iter().filter(used).collect::<Vec<_>>(), shells, holds.then_some(rule));
        let cluster = Self {
            // Folders are called so.
            name: context.replace(['/', ':'], "-"),
            owner: Owner::Somebody(Tenant::register(access, &client, stay).await?),
            client,
            access: access.clone(),
            control_plane: None,
            workers: workers.to_vec(),
            containers: containers.names(),
            proxied,
            scheduler_folder: None,
            proxy,
            route: Mutex::new(None),
            forward: Mutex::new(None),
            staged: Mutex::new(vec![None; workers.len()]),
            texts: OnceCell::new(),
        };
        for worker in workers {
            cluster.patch_node(worker, &leave::no_hardware(&generation())).await?;
        }
        cluster.let_pods_reach_the_proxy().await?;
        if let Some(kind) = containers.cluster() {
            images::load(kind).await?;
            phases.done(format!("{context}: images into nodes"), began);
            began = Instant::now();
        }
        if let Err(error) = async {
            cluster.install(false).await?;
            cluster.installed().await
        }
        .await
        {
            let missing = cluster.missing_images().await.into_iter().map(|image| format!("; {image}"));
            return Err(error.context(format!("installing the suite{}", missing.collect::<String>())));
        }
        phases.done(format!("{context}: suite serves"), began);
        Ok(cluster)
    }

    /// Images that kubelets wait for, with what to do about it; empty if there are none, or they cannot be asked.
    pub(in crate::kind) async fn missing_images(&self) -> Vec<String> {
        let mut told = Vec::new();
        for namespace in [SYSTEM, NAMESPACE] {
            let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
            let pods = pods.list(&ListParams::default()).await.map(|list| list.items).unwrap_or_default();
            told.extend(pods.iter().flat_map(lacks));
        }
        told.sort();
        told.dedup();
        told
    }
}

/// Those of these nodes that do not have the rule for the proxy yet.
async fn without_rule(nodes: &[String], address: &str) -> anyhow::Result<Vec<String>> {
    let mut without = Vec::new();
    for node in nodes {
        let look = format!("iptables -t nat -C {} 2>/dev/null && echo there || :", proxy_rule(address));
        if in_container(node, &look).await?.trim().is_empty() {
            without.push(node.clone());
        }
    }
    Ok(without)
}

/// What images the pod waits for.
fn lacks(pod: &Pod) -> Vec<String> {
    let status = pod.status.iter();
    let all = status.flat_map(|status| {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    });
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
    let lack = all.filter_map(|container| {
        let reason = container.state.as_ref()?.waiting.as_ref()?.reason.as_deref()?;
        NO_IMAGE.contains(&reason).then(|| {
            format!(
                "node {node} has no image {} ({reason}): load the suite's images ({}) into the cluster's nodes; only \
                 into kind's nodes of this machine --use does so itself",
                container.image,
                images::IMAGES.join(", ")
            )
        })
    });
    lack.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_image_that_kubelet_waits_for_is_told_with_what_to_do() {
        let pod = |reason: &str| -> Pod {
            serde_json::from_value(json!({
                "spec": {"nodeName": "a", "containers": []},
                "status": {"containerStatuses": [{
                    "name": "main", "image": "neuron-extender:dev", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"waiting": {"reason": reason}},
                }]},
            }))
            .unwrap()
        };
        for reason in ["ErrImageNeverPull", "ImagePullBackOff"] {
            let told = lacks(&pod(reason)).concat();
            assert!(told.starts_with("node a has no image neuron-extender:dev"), "{told}");
            assert!(told.contains("neuron-workload:dev"), "{told}");
        }
        assert_eq!(lacks(&pod("ContainerCreating")), Vec::<String>::new());
    }
}
