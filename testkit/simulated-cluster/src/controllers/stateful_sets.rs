//! StatefulSets: pods of fixed names, one after the other, each made anew under its name when it is gone.

use super::Controllers;
use super::owners::{has_ended, is_deleting};

impl Controllers {
    pub(super) async fn keep_stateful_sets(&self, client: &kube::Client) {
        let sets = self.owners().stateful_sets.clone();
        for (name, set) in sets {
            let pods = self.pods_of(&name);
            let pod_name = |number: u32| format!("{name}-{number}");
            let mut is_complete = true;
            for number in 0..set.replicas {
                match pods.get(&pod_name(number)) {
                    None => {
                        self.create(client, &name, &pod_name(number), &set.pod).await;
                        is_complete = false;
                    }
                    Some(pod) if is_deleting(pod) => is_complete = false,
                    Some(pod) if has_ended(pod) => {
                        self.delete(client, pod, None).await;
                        is_complete = false;
                    }
                    Some(_) => {}
                }
                if !is_complete {
                    break;
                }
            }
            // The last first, one at a time.
            let mut surplus =
                pods.iter().filter(|(pod, _)| (0..set.replicas).all(|number| **pod != pod_name(number)));
            if let Some((_, pod)) = surplus.next_back().filter(|(_, pod)| is_complete && !is_deleting(pod)) {
                self.delete(client, pod, None).await;
            }
        }
    }
}
