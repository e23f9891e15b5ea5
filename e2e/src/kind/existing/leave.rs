//! Takes away from somebody's cluster everything that a run added, whatever of it is there. Called by this folder only.

use std::time::Duration;

use anyhow::{Context as _, bail};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Node, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use neuron_core::names;
use serde_json::{Value, json};

use super::super::access::Access;
use super::super::hardware::{DEVICES, FILES, GENERATION, INSTANCE_TYPE, LNC, generation};
use super::super::install::{self, SYSTEM};
use super::super::nodes::{PLUGIN_LABEL, START_KUBELET, in_container, offers_ours, proxy_rule, thaw};
use super::super::wait::{until, within};
use super::tenant::{MARK, Stay, as_it_is};
use crate::apply::OURS;
use crate::run::NAMESPACE;

/// Longest wait for fake hardware to go while the cluster is being left: it is not there at all if installing failed.
const HARDWARE: Duration = Duration::from_secs(20);
/// Where fake-neuron makes it, on the node.
const FAKE_ROOT: &str = "/var/lib/fake-neuron";
/// What the suite has beside its manifests: the Secrets of HTTPS, my-scheduler's lease.
const BESIDE: [&str; 3] =
    ["secret/neuron-scheduler-tls", "secret/my-scheduler-tls", "lease.coordination.k8s.io/my-scheduler"];

/// Everything of the suite's names that is in the cluster, as kubectl names it.
pub(super) async fn installed(access: &Access) -> anyhow::Result<Vec<String>> {
    let get = ["get", "--ignore-not-found", "-o", "name"];
    let manifests = access.kubectl(&[&get[..], &["-f", "-"]].concat(), &install::manifests()).await?;
    let beside = access.kubectl(&[&get[..], &["-n", SYSTEM], &BESIDE[..]].concat(), "").await?;
    Ok(manifests.lines().chain(beside.lines()).map(str::to_owned).collect())
}

/// Leaves the cluster as it was before the stay, and makes sure that it is. What a first try was kept from (a kubectl
/// that Ctrl-C ended too) a second one does.
pub(super) async fn leave(access: &Access, stay: &Stay) -> anyhow::Result<()> {
    let first = once(access, stay).await;
    match first {
        Ok(()) => Ok(()),
        Err(_) => once(access, stay).await,
    }
}

async fn once(access: &Access, stay: &Stay) -> anyhow::Result<()> {
    let client = access.client().await?;
    // A scenario that was broken off may have stopped them; without kubelet no pod ends.
    try_join_all(stay.containers.iter().map(|node| thaw(node))).await?;
    try_join_all(stay.containers.iter().map(|node| in_container(node, START_KUBELET))).await?;
    remove_pods(&client).await?;
    try_join_all(stay.nodes.keys().map(|node| remove_hardware(&client, node))).await?;
    let delete = ["delete", "--ignore-not-found", "--cascade=foreground", "--timeout=120s"];
    access.kubectl(&[&delete[..], &["-f", "-"]].concat(), &install::manifests()).await?;
    access.kubectl(&[&delete[..], &["-n", SYSTEM], &BESIDE[..]].concat(), "").await?;
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, before) in &stay.nodes {
        let patched = nodes.patch(name, &PatchParams::default(), &Patch::Merge(before)).await;
        patched.with_context(|| format!("making node {name} as it was"))?;
    }
    for node in &stay.containers {
        in_container(node, &format!("rmdir {FAKE_ROOT} 2>/dev/null || :")).await?;
    }
    if let Some((address, nodes)) = &stay.proxied {
        let remove = format!("iptables -t nat -D {} 2>/dev/null || :", proxy_rule(address));
        try_join_all(nodes.iter().map(|node| in_container(node, &remove))).await?;
    }
    remove_events(&client, stay).await?;
    for name in stay.nodes.keys() {
        until(&format!("node {name} to offer nothing"), || async {
            Ok(!offers_ours(&nodes.get(name).await?))
        })
        .await?;
    }
    let left = left_behind(access, &client, stay).await?;
    if !left.is_empty() {
        bail!("left behind: {}", left.join(", "));
    }
    let marks: Api<ConfigMap> = Api::namespaced(client, SYSTEM);
    match marks.delete(MARK, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        other => other.map(|_| ()).with_context(|| format!("deleting configmap {SYSTEM}/{MARK}")),
    }
}

/// The pods of scenarios.
fn pods() -> ListParams {
    ListParams::default().labels(&format!("{}={}", OURS.0, OURS.1))
}

async fn remove_pods(client: &Client) -> anyhow::Result<()> {
    let api: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    api.delete_collection(&DeleteParams::default(), &pods()).await.context("removing scenario pods")?;
    until("the pods of scenarios to be gone", || async {
        Ok(api.list_metadata(&pods()).await?.items.is_empty())
    })
    .await
}

/// The merge patch of a node that asks for no fake hardware and no plugin. A label that names another cloud's machine
/// asks for hardware too, which fake-neuron does not know.
pub(super) fn no_hardware(generation: &str) -> Value {
    json!({"metadata": {
        "labels": {names::INSTANCE_TYPE_LABEL: null, PLUGIN_LABEL: "off"},
        "annotations": {INSTANCE_TYPE: null, LNC: null, DEVICES: null, FILES: null, GENERATION: generation},
    }})
}

/// Asks fake-neuron for no hardware and takes the plugin away. What cannot be had is no error: fake-neuron may not be
/// there, and nothing but files below [`FAKE_ROOT`] stays.
async fn remove_hardware(client: &Client, node: &str) -> anyhow::Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let has_keeper = |node: &Node| {
        node.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(fake_neuron::node::APPLIED))
    };
    if !has_keeper(&nodes.get(node).await.with_context(|| format!("reading node {node}"))?) {
        return Ok(());
    }
    let generation = generation();
    let nothing = no_hardware(&generation);
    nodes.patch(node, &PatchParams::default(), &Patch::Merge(&nothing)).await?;
    let gone = within(HARDWARE, "the fake hardware to go", || async {
        let annotations = nodes.get(node).await?.metadata.annotations.unwrap_or_default();
        Ok(annotations.get(fake_neuron::node::APPLIED).is_some_and(|applied| applied.contains(&generation)))
    })
    .await;
    if let Err(error) = gone {
        eprintln!("files of fake hardware may stay in {FAKE_ROOT} of node {node}: {error:#}");
    }
    Ok(())
}

/// Removes what was said about pods during the stay: namespace `default` held no others.
async fn remove_events(client: &Client, stay: &Stay) -> anyhow::Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), NAMESPACE);
    let about_pods = ListParams::default().fields("involvedObject.kind=Pod");
    // Times of objects are whole seconds, rounded down.
    let since = stay.since.as_second();
    for event in events.list_metadata(&about_pods).await.context("listing events")?.items {
        let made = event.metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
        if let (Some(name), true) = (&event.metadata.name, made.is_some_and(|made| made >= since)) {
            match events.delete(name, &DeleteParams::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                other => other.map(|_| ()).with_context(|| format!("deleting event {name}"))?,
            }
        }
    }
    Ok(())
}

/// What is still there or not as it was.
async fn left_behind(access: &Access, client: &Client, stay: &Stay) -> anyhow::Result<Vec<String>> {
    let mut left = installed(access).await?;
    let scenarios: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let pods = scenarios.list_metadata(&pods()).await.context("listing pods")?;
    left.extend(pods.items.into_iter().filter_map(|pod| Some(format!("pod/{}", pod.metadata.name?))));
    let nodes: Api<Node> = Api::all(client.clone());
    for (name, before) in &stay.nodes {
        let node = nodes.get(name).await.with_context(|| format!("reading node {name}"))?;
        if as_it_is(&node) != *before {
            left.push(format!("labels or annotations of node/{name}"));
        }
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fake_neuron::node::Wish;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
    use std::collections::BTreeMap;

    #[test]
    fn a_node_of_any_cloud_asks_for_no_hardware_once_it_is_patched() {
        let mut node = json!({"metadata": {
            "labels": {"node.kubernetes.io/instance-type": "m5.large"},
            "annotations": {"neuron-e2e/lnc": "1", "neuron-e2e/instance-type": "inf2.xlarge"},
        }});
        for part in ["labels", "annotations"] {
            for (key, value) in no_hardware("7")["metadata"][part].as_object().unwrap() {
                let values = node["metadata"][part].as_object_mut().unwrap();
                if value.is_null() {
                    values.remove(key)
                } else {
                    values.insert(key.clone(), value.clone())
                };
            }
        }
        let metadata: ObjectMeta = serde_json::from_value(node["metadata"].take()).unwrap();
        let wish = Wish::of(&metadata.labels.unwrap_or_default(), &metadata.annotations.unwrap_or_default())
            .unwrap();
        assert_eq!(wish, Wish { generation: "7".into(), devices: BTreeMap::new(), ..Wish::default() });
    }
}
