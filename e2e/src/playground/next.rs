//! What to type next on a cluster that stands: every line works as it is.

use neuron_core::catalog::Catalog;
use neuron_core::names;

use super::DEFAULT_NAME;
use crate::kind::{OWNER, Scheduling, WORKLOAD};
use neuron_e2e_engine::scenario::NodeSpec;

/// Most devices that the example asks for: more show nothing else.
const DEVICES: u8 = 4;

/// This program, as whoever started it called it.
pub(super) fn program() -> String {
    std::env::args().next().unwrap_or_else(|| "neuron-e2e".to_owned())
}

/// The option that names the cluster, where it needs one.
pub(super) fn name_option(name: &str) -> String {
    if name == DEFAULT_NAME { String::new() } else { format!(" --name {name}") }
}

/// The commands, with a pod that fits on the first node.
pub(super) fn text(name: &str, nodes: &[NodeSpec], scheduling: Scheduling) -> String {
    let first = nodes.first().and_then(|node| Catalog::embedded().find(&node.instance_type));
    let counts = first.map(|model| model.device_counts.as_slice()).unwrap_or_default();
    let devices = counts.iter().copied().filter(|count| *count <= DEVICES).max().unwrap_or(1);
    let (line, rule) = match scheduling {
        Scheduling::MyScheduler => (
            "  schedulerName: my-scheduler\n",
            "Pods that ask for devices choose the scheduler that knows them: `schedulerName: my-scheduler`.",
        ),
        Scheduling::Default => {
            ("", "The default scheduler knows the devices: pods need no `schedulerName` for them.")
        }
    };
    let (program, option) = (program(), name_option(name));
    format!(
        "{rule} Next:

export KUBECONFIG={kubeconfig}

kubectl apply -f - <<'EOF'
apiVersion: v1
kind: Pod
metadata:
  name: train
spec:
{line}  containers:
  - name: main
    image: {WORKLOAD}
    resources:
      limits:
        {resource}: {devices}
EOF

kubectl logs train   # what its container really got
{program} cluster status{option}
{program} cluster down{option}",
        kubeconfig = OWNER.kubeconfig(name).display(),
        resource = names::NEURON,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The manifest that the shell would hand to kubectl.
    fn manifest(types: &[&str], scheduling: Scheduling) -> serde_json::Value {
        let nodes: Vec<NodeSpec> = types.iter().map(|name| NodeSpec::of(name)).collect();
        let text = text("demo", &nodes, scheduling);
        let (_, rest) = text.split_once("<<'EOF'\n").unwrap();
        serde_saphyr::from_str(rest.split_once("\nEOF\n").unwrap().0).unwrap()
    }

    #[test]
    fn the_example_fits_on_the_first_node_and_names_the_scheduler() {
        let pod = manifest(&["trn1.32xlarge", "inf2.xlarge"], Scheduling::MyScheduler);
        assert_eq!(pod["spec"]["schedulerName"], "my-scheduler");
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"], 4);
    }

    #[test]
    fn the_default_scheduler_need_not_be_named() {
        let pod = manifest(&["inf2.xlarge"], Scheduling::Default);
        assert!(pod["spec"]["schedulerName"].is_null());
        assert_eq!(pod["spec"]["containers"][0]["resources"]["limits"]["aws.amazon.com/neuron"], 1);
    }
}
