//! Scenario files that are none: each is refused with a text that names the scenario and what is wrong.

use std::time::Duration;

use neuron_e2e_engine::embedded::{self, Options};
use neuron_e2e_engine::scenario::{CatalogSource, Scenario, ScenarioError, library};
use rstest::rstest;

fn parse(name: &str, text: &str) -> Result<Vec<Scenario>, ScenarioError> {
    library::parse(name, text, &CatalogSource::default())
}

const PLAIN: &str = "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: []\n";

#[rstest]
#[case::not_yaml("about: [x", "")]
#[case::a_list("- about: x", "scenario bad: the file is not a mapping")]
#[case::unknown_key(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: []\nexpects: {}",
    "scenario bad: unknown field `expects`, expected one of `about`, `nodes`, `steps`, `expect`, `interchangeable`, `invariants_only`, `only`, `kubelet_may_say`"
)]
#[case::unknown_key_of_a_node(
    "about: x\nnodes: [{type: inf2.24xlarge, cores: 2}]\nsteps: []",
    "scenario bad: unknown field `cores`, expected one of `type`, `lnc`, `driver`, `label`, `files`, `without_plugin`"
)]
#[case::unknown_step(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{aply: []}]",
    "scenario bad: unknown variant `aply`, expected one of `apply`, `apply-together`, `refused`, `create`, `delete`, `force-delete`, `ended`, `running`, `bound`, `preempt`, `patch`, `patch-node`, `restart`, `stop`, `start`, `device`, `faults`, `allocatable`, `kernel-log`, `metrics`, `hold`, `during`, `churn`, `reboot`, `restart-unlisted`, `advance-clock`"
)]
#[case::step_amid(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{amid: {bound: 1, apply: [], steps: []}}]",
    "scenario bad: step `amid` is called `during` now"
)]
#[case::step_pass_inside_a_step(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{hold: {before: bind, apply: [], meanwhile: [{pass: 1}]}}]",
    "scenario bad: step `pass` is called `advance-clock` now"
)]
#[case::unknown_part(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{restart: {part: kublet}}]",
    "scenario bad: unknown variant `kublet`, expected one of `extender`, `extender-leader`, `plugin`, `kubelet`, `node`, `scheduler`, `containerd`, `api-server`, `etcd`"
)]
#[case::hold_before_what_cannot_be_held(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{hold: {before: bound, apply: [], meanwhile: []}}]",
    "scenario bad: unknown variant `bound`, expected one of `filter`, `bind`, `binding`"
)]
#[case::hold_after_a_binding(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{hold: {after: binding, apply: [], meanwhile: []}}]",
    "scenario bad: unknown variant `binding`, expected `filter` or `bind`"
)]
#[case::hold_before_and_after(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{hold: {before: binding, after: bind, apply: [], meanwhile: []}}]",
    "scenario bad: a hold is either `before` filter, bind or binding, or `after` filter or bind"
)]
#[case::churn_of_no_pod(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{churn: {seed: 1, at-once: 1, kill-every: 1, kill: [], pods: [], delete: [a]}}]",
    "scenario bad: churn is to delete pod a, and has none of this name"
)]
#[case::churn_of_none_at_once(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{churn: {seed: 1, at-once: 0, kill-every: 1, kill: [], pods: []}}]",
    "scenario bad: invalid value: integer `0`, expected a nonzero usize"
)]
#[case::unknown_fault(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{faults: {in-force: [{fault: device-lots, device: 1}]}}]",
    "scenario bad: unknown variant `device-lots`, expected one of `device-lost`, `ecc`, `unhealthy`, `health-status`, `hung-read`, `reset`, `driver-unloaded`, `link-down`, `wrong-lnc`, `core-held`, `kernel-error`"
)]
#[case::fault_at_a_time(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{faults: {in-force: [{fault: reset, device: 1, for: 5s}]}}]",
    "scenario bad: reset (device 1): leave `after`, `for` and `probability` out, for a scenario's steps say when a fault is in force"
)]
#[case::metrics_of_what_shows_none(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{metrics: {part: kubelet, series: a_total, at-least: 1}}]",
    "scenario bad: metrics are those of plugin or extender, not of kubelet"
)]
#[case::metrics_that_do_not_count(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{metrics: {part: extender, series: neuron_extender_leader, at-least: 1}}]",
    "scenario bad: series \"neuron_extender_leader\" is no counter: what was counted since the scenario began is compared, and names of \
     counters end with _total or _count"
)]
#[case::metrics_with_labels_without_end(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{metrics: {part: extender, series: 'a_total{b=\"c\"', at-least: 1}}]",
    "scenario bad: series \"a_total{b=\\\"c\\\"\": its labels have no end, a `}`"
)]
#[case::metrics_with_a_label_without_quotes(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: [{metrics: {part: extender, series: 'a_total{b=c}', at-least: 1}}]",
    "scenario bad: series \"a_total{b=c}\": \"b=c\" is no label, which is as name=\"value\""
)]
#[case::no_release(
    "about: x\nnodes: [{type: inf2.24xlarge}]\nsteps: []\nonly: {cluster: kind, since: new, because: x}",
    "scenario bad: \"new\" is no release of Kubernetes; one is written as v1.37.2 or 1.37"
)]
#[case::undefined_value(
    "about: x\nnodes: [{type: \"${type}\"}]\nsteps: []",
    "scenario bad: \"${type}\" names a value that for_each and repeat do not define"
)]
#[case::undefined_value_of_one_type(
    "about: x ${device}\nfor_each: {type: [trn1.32xlarge]}\nnodes: [{type: \"${type}\"}]\nsteps: []",
    "scenario bad/trn1.32xlarge: \"x ${device}\" names a value that for_each and repeat do not define"
)]
#[case::four_nodes(
    "about: x\nnodes: [{type: a}, {type: a}, {type: a}, {type: a}]\nsteps: []",
    "scenario bad: 4 nodes; a scenario has one to three"
)]
#[case::no_nodes("about: x\nnodes: []\nsteps: []", "scenario bad: 0 nodes; a scenario has one to three")]
#[case::without_steps("about: x\nnodes: [{type: inf2.24xlarge}]", "scenario bad: missing field `steps`")]
fn a_file_that_is_no_scenario_is_refused(#[case] text: &str, #[case] expected: &str) {
    let error = parse("bad", text).unwrap_err().to_string();
    match expected {
        // What the YAML library says of its own is not ours to fix to the letter.
        "" => assert!(error.starts_with("scenario bad: ") && error.contains("line 1"), "{error}"),
        expected => assert_eq!(error, expected),
    }
}

#[test]
fn the_name_is_the_files() {
    assert_eq!(parse("plain", PLAIN).unwrap()[0].name, "plain");
}

#[rstest]
#[case::restart("{restart: {part: extender-leader}}", true)]
#[case::stop("{stop: {part: extender-leader}}", true)]
#[case::inside_a_step(
    "{hold: {before: binding, apply: [], meanwhile: [{stop: {part: extender-leader}}]}}",
    true
)]
#[case::churn(
    "{churn: {seed: 1, at-once: 1, kill-every: 1, kill: [{part: extender-leader}], pods: []}}",
    true
)]
#[case::all_replicas("{restart: {part: extender}}", false)]
fn a_step_about_the_leader_needs_two_replicas(#[case] step: &str, #[case] expected: bool) {
    let text = PLAIN.replace("steps: []", &format!("steps: [{step}]"));
    assert_eq!(parse("plain", &text).unwrap()[0].needs_replicas(), expected);
}

#[tokio::test]
async fn an_unknown_type_is_refused_before_anything_runs() {
    let text = PLAIN.replace("inf2.24xlarge", "trn1.31xlarge");
    let scenario = parse("bad", &text).unwrap().remove(0);
    let error = neuron_e2e_engine::embedded::run(&scenario, Default::default()).await.unwrap_err();
    assert_eq!(
        format!("{error:#}"),
        "bringing the embedded cluster up: machine of n1: instance type trn1.31xlarge is not known: did you mean \
         one of trn1.32xlarge, trn1n.32xlarge, trn1.2xlarge? `fake-neuron list --aliases` shows every name \
         and takes types of your own with --catalog"
    );
}

#[rstest]
#[case::unknown_node(
    "{node: n2, in-force: []}",
    "step 1 (faults): \"n2\" is not a node of this scenario; it has n1 to n1"
)]
#[case::unknown_device(
    "{in-force: [{fault: reset, device: 6}]}",
    "step 1 (faults): faults of n1: inf2.24xlarge has no device 6: its devices are 0 to 5"
)]
#[case::no_link(
    "{in-force: [{fault: link-down, device: 0, other: 5}]}",
    "step 1 (faults): faults of n1: the driver shows no link between devices 0 and 5 of inf2.24xlarge: device 0 is linked to 1"
)]
#[case::the_opposite(
    "{in-force: [{fault: core-held, core: 1, pid: 7}, {fault: core-held, core: 1, pid: 8}]}",
    "step 1 (faults): faults of n1: core-held (core 1, pid 8) contradicts fault 1, core-held (core 1, pid 7): core 1 is held by one process; \
     lift that one first with `fake-neuron fault clear 1`"
)]
#[tokio::test]
async fn faults_that_a_node_cannot_have_are_refused(#[case] step: &str, #[case] expected: &str) {
    let text = PLAIN.replace("steps: []", &format!("steps: [{{faults: {step}}}]"));
    let scenario = parse("bad", &text).unwrap().remove(0);
    let error = neuron_e2e_engine::embedded::run(&scenario, Default::default()).await.unwrap_err();
    assert_eq!(format!("{error:#}"), expected);
}

#[rstest]
#[case::within(
    "{devices: 5, cores: 10, within: 1}",
    "step 2 (allocatable): waited 1 s for n1 to offer 5 devices and 10 cores: n1 offers 6 devices and 12 cores"
)]
#[case::reason(
    "{devices: 6, cores: 12, unhealthy: {\"3\": lost}, within: 1}",
    "step 2 (allocatable): waited 1 s for n1 to offer 6 devices and 12 cores: n1 reports device 3 as Healthy with reason \"\", not as \
     Unhealthy with \"lost\""
)]
#[tokio::test]
async fn what_a_node_does_not_offer_in_time_is_told(#[case] step: &str, #[case] expected: &str) {
    let steps = format!("steps: [{{faults: {{in-force: []}}}}, {{allocatable: {step}}}]");
    let scenario = parse("bad", &PLAIN.replace("steps: []", &steps)).unwrap().remove(0);
    let error = neuron_e2e_engine::embedded::run(&scenario, Default::default()).await.unwrap_err();
    assert_eq!(format!("{error:#}"), expected);
}

#[tokio::test]
async fn what_does_not_stay_is_told() {
    let steps = "steps: [{faults: {in-force: [{fault: reset, device: 0}]}}, {allocatable: {devices: 6, cores: 12, stays: 20}}]";
    let scenario = parse("bad", &PLAIN.replace("steps: []", steps)).unwrap().remove(0);
    let error = neuron_e2e_engine::embedded::run(&scenario, Default::default()).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(
        error.starts_with("step 2 (allocatable): n1 was to offer 6 devices and 12 cores for 20 s; after "),
        "{error}"
    );
}

#[rstest]
#[case::of_the_plugin(
    "{part: plugin, series: 'neuron_device_plugin_allocate_seconds_count{result=\"given\"}', at-least: 1, at-most: 1}",
    ""
)]
#[case::of_the_extender(
    "{part: extender, series: 'neuron_extender_verb_seconds_count{verb=\"bind\",result=\"bound\"}', at-least: 1, at-most: 1}",
    ""
)]
#[case::too_few(
    "{part: plugin, series: 'neuron_device_plugin_allocate_seconds_count{result=\"given\"}', at-least: 2}",
    "step 2 (metrics): waited 60 s for neuron_device_plugin_allocate_seconds_count{result=\"given\"} to have counted 2: it has counted 1 \
     since the scenario began"
)]
#[case::too_many(
    "{part: extender, series: neuron_extender_verb_seconds_count, at-least: 1, at-most: 1}",
    "step 2 (metrics): neuron_extender_verb_seconds_count has counted 2 since the scenario began, and may have 1 at most"
)]
#[tokio::test]
async fn what_was_counted_since_the_scenario_began_is_compared(#[case] step: &str, #[case] wrong: &str) {
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: one}, spec: {containers: [\
               {name: main, image: neuron-workload, resources: {limits: {aws.amazon.com/neuroncore: 1}}}]}}";
    let steps = format!("steps: [{{apply: [{pod}]}}, {{metrics: {step}}}]");
    let scenario = parse("bad", &PLAIN.replace("steps: []", &steps)).unwrap().remove(0);
    let on_it = scenario.clone();
    let finished = embedded::on_cluster(&scenario, Options::default(), async move |cluster| {
        cluster.with_timeout(Duration::from_secs(60)).run(&on_it).await
    });
    let what_is_wrong = match finished.await {
        Ok(finished) => finished.failures.join("; "),
        Err(error) => format!("{error:#}"),
    };
    assert_eq!(what_is_wrong, wrong);
}

#[tokio::test]
async fn a_pod_that_has_failed_will_not_run() {
    // kubelet itself refuses it, which no scheduler has placed.
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: fails}, spec: {nodeName: n1, containers: [\
               {name: main, image: neuron-workload, resources: {limits: {aws.amazon.com/neuron: 7}}}]}}";
    let steps = format!("steps: [{{apply-together: [{pod}]}}, {{running: [fails]}}]");
    let scenario = parse("bad", &PLAIN.replace("steps: []", &steps)).unwrap().remove(0);
    let error = neuron_e2e_engine::embedded::run(&scenario, Default::default()).await.unwrap_err();
    let error = format!("{error:#}");
    assert!(error.starts_with("step 2 (running): pod fails has failed and will never run: "), "{error}");
    assert!(error.contains("aws.amazon.com/neuron"), "{error}");
}

#[tokio::test]
async fn a_step_that_fails_is_named() {
    let text = PLAIN.replace("steps: []", "steps: [{bound: []}, {stop: {part: kubelet, node: n2}}]");
    let scenario = parse("bad", &text).unwrap().remove(0);
    let error = neuron_e2e_engine::embedded::run(&scenario, Default::default()).await.unwrap_err();
    assert_eq!(format!("{error:#}"), "step 2 (stop): \"n2\" is not a node of this scenario; it has n1 to n1");
}
