//! Every image starts, answers for its health, refuses what it does not know, and ends when told to.

use neuron_workload::Report;
use testcontainers::ImageExt;

use crate::docker::{
    can_run, container, exit_code, first_line, healthz, healthz_that_says, service, start, stop,
};

#[tokio::test(flavor = "multi_thread")]
async fn the_extender_is_alive_without_an_api_server_and_ends_when_told() {
    if !can_run("neuron-extender") {
        return;
    }
    let extender = start(service("neuron-extender", 12345, &["--kubeconfig=/kubeconfig"])).await;
    assert_eq!(healthz(&extender, 12345).await.0, 200);
    assert_eq!(stop(&extender).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_says_what_it_misses_and_ends_when_told() {
    if !can_run("neuron-device-plugin") {
        return;
    }
    let arguments = ["--kubeconfig=/kubeconfig", "--listen=[::]:8080", "--root=/nothing"];
    let request = service("neuron-device-plugin", 8080, &arguments).with_env_var("NODE_NAME", "n1");
    let plugin = start(request).await;
    let (status, _) = healthz_that_says(&plugin, 8080, "/nothing/sys/").await;
    assert_eq!(status, 503);
    assert_eq!(stop(&plugin).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn fake_neuron_waits_for_its_node_and_ends_when_told() {
    if !can_run("fake-neuron") {
        return;
    }
    let arguments = ["node", "--kubeconfig=/kubeconfig", "--listen=[::]:8080", "--root=/machine"];
    let fake = start(service("fake-neuron", 8080, &arguments).with_env_var("NODE_NAME", "n1")).await;
    assert_eq!(healthz(&fake, 8080).await, (503, "the node has not been seen yet".to_owned()));
    assert_eq!(stop(&fake).await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_workload_reports_and_ends_when_told_or_by_itself() {
    if !can_run("neuron-workload") {
        return;
    }
    let workload = start(container("neuron-workload", &["--exit=3"])).await;
    let report: Report = serde_json::from_str(&first_line(&workload).await).unwrap();
    assert_eq!(report.of_neuron(), Report::default(), "no devices were given");
    assert_eq!(stop(&workload).await, 3);
    let workload = start(container("neuron-workload", &["--for=10ms", "--exit=4"])).await;
    assert_eq!(exit_code(&workload).await, 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_that_is_not_known_is_named_and_refused() {
    for image in ["neuron-extender", "neuron-device-plugin", "fake-neuron", "neuron-workload"] {
        if !can_run(image) {
            return;
        }
        let refused = start(container(image, &["--no-such-flag"])).await;
        assert_eq!(exit_code(&refused).await, 2, "{image}");
        let said = String::from_utf8(refused.stderr_to_vec().await.unwrap()).unwrap();
        assert!(said.contains("unexpected argument '--no-such-flag'"), "{image}: {said}");
    }
}
