//! The log with the lines of AWS' documentation, as `kubectl logs` shows it.

use fake_cluster::api::ApiServer;
use fake_cluster::clock::Clock;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use rstest::rstest;
use serde_json::{Value, json};

use crate::objects::{node, pod};
use crate::program::Program;

/// The node of AWS' example.
const NODE: &str = "ip-192-168-2-25.ec2.internal";

/// AWS' example, a pod that asks for a device, one with a node it fits beside one that it does not, and one that waits; what the
/// program has logged of it, UIDs redacted.
async fn conversation(words: &[&str]) -> String {
    let api = ApiServer::new(Clock::new());
    let client = api.client();
    let (nodes, pods): (Api<Node>, Api<Pod>) = (Api::all(client.clone()), Api::default_namespaced(client));
    for (name, instance_type) in [(NODE, "inf1.6xlarge"), ("n2", "inf2.xlarge"), ("n3", "inf2.xlarge")] {
        let node = serde_json::from_value(node(name, instance_type)).unwrap();
        nodes.create(&PostParams::default(), &node).await.unwrap();
    }
    let program = Program::start(api, words).await;
    let mut uids = Vec::new();
    let asked = [("nrt-test-5038", "neuroncore", 9), ("device", "neuron", 1), ("waits", "neuron", 4)];
    for (name, resource, count) in asked {
        let pod = serde_json::from_value(pod(name, resource, count)).unwrap();
        let pod: Pod = pods.create(&PostParams::default(), &pod).await.unwrap();
        uids.push(pod.uid().unwrap());
        let filter = json!({"Pod": pod, "Nodes": null, "NodeNames": ["n2", NODE, "n3"]});
        let answer = program.ask("/filter", filter.clone()).await;
        if answer["NodeNames"] == json!([]) {
            // What is refused again for the same reason is no news.
            program.ask("/filter", filter).await;
        }
        let bind = json!({
            "PodName": name, "PodNamespace": "default", "PodUID": pod.uid().unwrap(), "Node": NODE,
        });
        program.ask("/bind", bind).await;
    }
    // Whole nodes, of which only the name is read.
    let pod: Value = pod("plain", "neuroncore", 1);
    let given = json!([node("n2", "inf2.xlarge"), node("n4", "inf2.xlarge")]);
    program.ask("/filter", json!({"Pod": pod, "Nodes": {"items": given}, "NodeNames": null})).await;
    let log = program.end().await;
    uids.iter().fold(log, |log, uid| log.replace(uid, "UID"))
}

/// The line without its time, if it begins with one as Go's log prints it.
fn behind_time(line: &str) -> Option<&str> {
    let (time, rest) = line.split_at_checked("2022/10/12 15:41:16".len())?;
    let time = DateTime::strptime("%Y/%m/%d %H:%M:%S", time).ok()?;
    let ago = TimeZone::UTC.to_timestamp(time).unwrap().duration_until(Timestamp::now());
    assert!(ago.abs() < SignedDuration::from_mins(5), "in UTC: {line}");
    rest.strip_prefix(' ')
}

#[tokio::test]
async fn classic_shows_the_lines_of_the_documentation_beside_the_others() {
    let log = conversation(&["--log-format", "classic"]).await;
    let mut shown = Vec::new();
    for line in log.lines() {
        if let Some(line) = behind_time(line) {
            shown.push(format!("TIME {line}"));
        } else if let Some((_, line)) =
            line.split_once("Z ").filter(|_| line.contains(" bind{") || line.contains(" filter{"))
        {
            shown.push(format!("time {line}"));
        }
    }
    insta::assert_snapshot!("classic_conversation", shown.join("\n"));
}

#[rstest]
#[case("text")]
#[case("json")]
#[tokio::test]
async fn nothing_of_it_is_in_the_other_forms(#[case] form: &str) {
    let log = conversation(&["--log-format", form]).await;
    assert!(log.contains("pod bound") && log.contains("no node takes the pod"), "{log}");
    for text in ["fits in Node", "Filter Request", "Bind Request", "UsageMap", "neuron_extender::classic"] {
        assert!(!log.contains(text), "{text}: {log}");
    }
    assert!(log.lines().all(|line| behind_time(line).is_none()), "{log}");
}
