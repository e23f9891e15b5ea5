//! What an operator reads in the log: fields that name pod, devices and reason, and each condition once.

use neuron_device_plugin::status::Status;
use tracing::Level;

use crate::captured::{Line, Log};
use crate::node::{Node, asks};

fn fields(line: &Line) -> Vec<(&str, &str)> {
    let fields = line.fields.iter().filter(|(name, _)| *name != "message");
    fields.map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[tokio::test]
async fn an_allocation_names_its_pod_and_what_it_got() {
    let log = Log::capture();
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    node.place("p", asks("neuron", 2), &[("main", "2,3", "")]).await;
    node.phase("p", "Running").await;

    let lines = log.lines("allocated");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0].level, lines[0].span), (Level::INFO, Some("Allocate")));
    assert_eq!(
        fields(&lines[0]),
        [
            ("cores", "4,5,6,7"),
            ("devices", "2,3"),
            ("node", "n1"),
            ("pod", "default/p"),
            ("resource", "aws.amazon.com/neuron"),
        ]
    );
    for call in ["GetDevicePluginOptions", "ListAndWatch", "GetPreferredAllocation", "Allocate"] {
        let resource = "aws.amazon.com/neuron".to_owned();
        assert!(log.spans().contains(&(call, resource)), "{call} is no span: {:?}", log.spans());
    }
}

#[tokio::test]
async fn a_refusal_names_its_pod_and_the_reason() {
    let log = Log::capture();
    let (node, _kubelet, _plugin) = Node::running("inf2.24xlarge").await;
    for device in ["1", "3"] {
        node.place(device, asks("neuron", 1), &[("main", device, "")]).await;
        node.phase(device, "Running").await;
    }
    node.place("p", asks("neuron", 3), &[]).await;
    let message = node.phase("p", "Failed").await.status.unwrap().message.unwrap();

    let lines = log.lines("allocation refused");
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert_eq!((lines[0].level, lines[0].span), (Level::WARN, Some("Allocate")));
    let reason = lines[0].fields["reason"].clone();
    assert!(reason.contains("cannot be given") && message.contains(&reason), "{reason:?} in {message:?}");
    assert_eq!(
        fields(&lines[0]),
        [
            ("node", "n1"),
            ("pod", "default/p"),
            ("reason", reason.as_str()),
            ("resource", "aws.amazon.com/neuron"),
        ]
    );
}

#[test]
fn a_problem_is_logged_when_it_begins_changes_and_ends() {
    let (log, status) = (Log::capture(), Status::default());
    for reason in ["no driver", "no driver", "no devices", "no devices"] {
        status.problem("devices", reason);
    }
    status.fine("devices");
    status.fine("devices");
    let reasons: Vec<String> =
        log.lines("not ready").iter().map(|line| line.fields["reason"].clone()).collect();
    assert_eq!(reasons, ["no driver", "no devices"]);
    assert_eq!(log.lines("ready").len(), 1);
}
