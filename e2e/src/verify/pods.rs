//! The pods of a verification: made, looked at, deleted.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, LogParams, PostParams};
use neuron_core::names::Resource;
use neuron_e2e_engine::outcome::PodOutcome;
use neuron_workload::Report;
use serde_json::json;
use testkit_support::Wait;

use super::Settings;

/// The pods' container.
pub(super) const MAIN: &str = "main";
/// A label of every pod, for people who look for them.
const LABEL: &str = "neuron-e2e/verify";
/// After this many times its timeout a pod ends of itself, should nobody be left to delete it.
const LIFETIME: u32 = 10;
/// How long a deletion may take.
const DELETION: Wait = Wait { timeout: Duration::from_secs(60), poll: Duration::from_millis(250) };

/// The pods so far.
pub(super) struct Pods<'s> {
    api: Api<Pod>,
    events: Api<Event>,
    settings: &'s Settings,
    /// What every name ends in, that no other run has.
    run: String,
    /// Those that may be there.
    names: Mutex<Vec<String>>,
    made: AtomicUsize,
}

/// A pod as it is now.
pub(super) struct PodLook {
    pod: Pod,
    /// What its events and its condition say.
    pub(super) texts: Vec<String>,
}

impl<'s> Pods<'s> {
    /// None yet.
    pub(super) fn new(client: &Client, settings: &'s Settings) -> Self {
        let namespace = &settings.namespace;
        Self {
            api: Api::namespaced(client.clone(), namespace),
            events: Api::namespaced(client.clone(), namespace),
            settings,
            run: format!("{:x}", Timestamp::now().as_millisecond()),
            names: Mutex::default(),
            made: AtomicUsize::new(0),
        }
    }

    /// Makes a pod that asks for this many; gives its name.
    pub(super) async fn create(&self, what: &str, resource: Resource, count: u32) -> anyhow::Result<String> {
        let name = format!("neuron-verify-{what}-{}", self.run);
        let Settings { image, scheduler, node_label, wait, .. } = self.settings;
        let selector: Option<BTreeMap<&str, &str>> =
            node_label.as_ref().map(|(key, value)| [(key.as_str(), value.as_str())].into());
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": name, "labels": {LABEL: self.run}},
            "spec": {
                "schedulerName": scheduler,
                "nodeSelector": selector,
                "tolerations": [{"key": "aws.amazon.com/neuron", "operator": "Exists"}],
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "activeDeadlineSeconds": (wait.timeout * LIFETIME).as_secs().max(1),
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": MAIN,
                    "image": image,
                    "imagePullPolicy": "IfNotPresent",
                    "resources": {"limits": {resource.name(): count.to_string()}},
                }],
            },
        }))?;
        // Noted before creation, so that an interrupted run deletes it too.
        self.names().push(name.clone());
        self.made.fetch_add(1, Ordering::Relaxed);
        let created = self.api.create(&PostParams::default(), &pod).await;
        created.with_context(|| format!("creating pod {name}"))?;
        Ok(name)
    }

    /// Looks at a pod until there is something in what is seen, and gives that.
    pub(super) async fn look_until<T>(
        &self,
        name: &str,
        what: &str,
        found: impl Fn(&PodLook) -> Option<T>,
    ) -> anyhow::Result<T> {
        let last = Mutex::new(Vec::new());
        let waited = self.settings.wait.found(what, async || {
            let seen = self.look(name).await?;
            let now = found(&seen);
            *last.lock().unwrap_or_else(PoisonError::into_inner) = seen.texts;
            Ok(now)
        });
        let waited = waited.await;
        let texts = last.into_inner().unwrap_or_else(PoisonError::into_inner);
        waited.map_err(|error| match &texts[..] {
            [] => error,
            _ => anyhow!("{error:#}; it was told: {}", texts.join("; ")),
        })
    }

    /// What came of a pod, as scenarios see it, once it runs and has said what it got.
    pub(super) async fn outcome(&self, name: &str) -> anyhow::Result<PodOutcome> {
        let pod = self.api.get(name).await.with_context(|| format!("reading pod {name}"))?;
        let log = self.api.logs(name, &LogParams::default()).await;
        let report =
            log.ok().and_then(|log| log.lines().find_map(|line| serde_json::from_str::<Report>(line).ok()));
        Ok(PodOutcome {
            phase: kind_driver::status::phase(&pod).to_owned(),
            failure: failure(&pod),
            node: pod.spec.and_then(|spec| spec.node_name),
            annotations: pod.metadata.annotations.unwrap_or_default(),
            containers: report.map(|report| (MAIN.to_owned(), report)).into_iter().collect(),
            ..PodOutcome::default()
        })
    }

    /// How long one pod may take.
    pub(super) fn wait(&self) -> Wait {
        self.settings.wait
    }

    async fn look(&self, name: &str) -> anyhow::Result<PodLook> {
        let pod = self.api.get(name).await.with_context(|| format!("reading pod {name}"))?;
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let about = ListParams::default().fields(&format!("involvedObject.uid={uid}"));
        let events = self.events.list(&about).await.context("asking for events")?.items;
        let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let unscheduled = conditions.filter(|known| known.type_ == "PodScheduled" && known.status == "False");
        let mut texts: Vec<String> = events.into_iter().filter_map(|event| event.message).collect();
        texts.extend(unscheduled.filter_map(|known| known.message.clone()));
        texts.extend(failure(&pod));
        texts.sort();
        texts.dedup();
        Ok(PodLook { texts, pod })
    }

    /// Deletes a pod, and waits until it is gone.
    pub(super) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        let now = DeleteParams::default().grace_period(1);
        DELETION
            .until(&format!("pod {name} to be gone"), async || match self.api.delete(name, &now).await {
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(true),
                deleted => deleted.map(|_| false).with_context(|| format!("deleting pod {name}")),
            })
            .await?;
        self.names().retain(|other| other != name);
        Ok(())
    }

    /// Deletes every pod that is left, and waits until all are gone. Gives how many were made in all.
    pub(super) async fn remove(&self) -> anyhow::Result<usize> {
        let names = self.names().clone();
        let deletions = futures::future::join_all(names.iter().map(|name| self.delete(name))).await;
        let left: Vec<String> =
            deletions.into_iter().filter_map(|deleted| Some(format!("{:#}", deleted.err()?))).collect();
        anyhow::ensure!(left.is_empty(), "pods stay behind: {}", left.join("; "));
        Ok(self.made.load(Ordering::Relaxed))
    }

    fn names(&self) -> std::sync::MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PodLook {
    /// The node that the pod was placed on.
    pub(super) fn pod_node(&self) -> Option<&str> {
        self.pod.spec.as_ref()?.node_name.as_deref()
    }
}

/// kubelet's reason and message, if the pod has failed.
fn failure(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref().filter(|_| kind_driver::status::phase(pod) == "Failed")?;
    let reason = status.reason.clone().unwrap_or_else(|| "Failed".to_owned());
    Some(status.message.as_ref().map_or(reason.clone(), |message| format!("{reason}: {message}")))
}
