//! Jobs: so many pods run at a time until so many have succeeded, or too many have failed.

use fake_cluster::api::text;

use super::Controllers;
use super::owners::{has_ended, is_deleting};

/// A Job gives up after so many failed pods (`backoffLimit`).
const MOST_FAILURES: u32 = 6;

impl Controllers {
    pub(super) async fn keep_jobs(&self, client: &kube::Client) {
        let names: Vec<String> = self.owners().jobs.keys().cloned().collect();
        for name in names {
            self.keep_job(client, &name).await;
        }
        let deleted = self.owners().deleted.clone();
        for name in deleted {
            let pods = self.pods_of(&name);
            for pod in pods.values().filter(|pod| !is_deleting(pod)) {
                self.delete(client, pod, None).await;
            }
            if pods.is_empty() {
                self.owners().deleted.retain(|other| *other != name);
            }
        }
    }

    async fn keep_job(&self, client: &kube::Client, name: &str) {
        let Some(mut job) = self.owners().jobs.get(name).cloned() else { return };
        let pods = self.pods_of(name);
        let is_there = |uid: &String| pods.values().any(|pod| text(pod, "/metadata/uid") == uid);
        job.counted.retain(is_there);
        for pod in pods.values().filter(|pod| has_ended(pod) && !is_deleting(pod)) {
            // Counted once, however often deleting it fails.
            if job.counted.insert(text(pod, "/metadata/uid").to_owned()) {
                match text(pod, "/status/phase") {
                    "Succeeded" => job.succeeded += 1,
                    _ => job.failed += 1,
                }
            }
            self.delete(client, pod, None).await;
        }
        let active = pods.values().filter(|pod| !has_ended(pod)).count();
        let left = job.completions.saturating_sub(job.succeeded);
        let is_over = left == 0 || job.failed > MOST_FAILURES;
        if is_over && active == 0 {
            self.owners().jobs.remove(name);
            return;
        }
        let wanted = usize::try_from(left.min(job.parallelism)).unwrap_or_default();
        if !is_over {
            for _ in active..wanted {
                job.made += 1;
                self.create(client, name, &format!("{name}-{}", job.made), &job.pod).await;
            }
        }
        if let Some(known) = self.owners().jobs.get_mut(name) {
            *known = job;
        }
    }
}
