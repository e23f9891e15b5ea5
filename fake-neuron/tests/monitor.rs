//! `neuron-monitor`: its stream of records, and what drives the counters.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod monitoring;

use std::fs;

use common::{place, spec, up};
use fake_neuron::MachineSpec;
use monitoring::{Stream, neuron_monitor, quick, write, write_load, write_state};
use neuron_core::catalog::{Catalog, Generation};
use rstest::rstest;
use serde_json::{Value, json};

/// The text with every number of the host in `system_data` as 0.
fn without_numbers(text: &str) -> String {
    let (before, rest) = text.split_once("\"system_data\"").unwrap();
    let (system, after) = rest.split_once("\"instance_info\"").unwrap();
    let mut plain = String::new();
    for part in system.split_inclusive(':') {
        let digits = part.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(0);
        plain.push_str(if digits > 0 { "0" } else { "" });
        plain.push_str(&part[digits..]);
    }
    format!("{before}\"system_data\"{plain}\"instance_info\"{after}")
}

/// Captured on an idle trn1.2xlarge, but for what differs from instance to instance.
#[test]
fn the_first_record_comes_at_once_and_is_as_captured() {
    let (_folder, root) = place();
    let id = Some("i-0421ea5496c852415".to_owned());
    up(&MachineSpec { instance_id: id, ..spec("trn1.2xlarge") }, &root).unwrap();
    let line = Stream::start(&mut neuron_monitor(&root)).line();
    let instance = serde_json::from_str::<Value>(&line).unwrap()["instance_info"].clone();
    let captured = r#"{"neuron_runtime_data":[],"system_data":{"memory_info":{"period":0,"memory_total_bytes":0,"memory_used_bytes":0,"swap_total_bytes":0,"swap_used_bytes":0,"error":""}},"instance_info":{"instance_name":"","instance_id":"i-0421ea5496c852415","instance_type":"trn1.2xlarge","instance_availability_zone":ZONE,"instance_availability_zone_id":ID,"instance_region":REGION,"ami_id":AMI,"subnet_id":SUBNET,"error":""},"neuron_hardware_info":{"neuron_device_type":"trainium","neuron_device_version":"v2","neuroncore_version":"v2","neuron_device_count":1,"neuron_device_memory_size":34359738368,"neuroncore_per_device_count":2,"logical_neuroncore_config":1,"error":""}}"#;
    let expected = [
        ("ZONE", "instance_availability_zone"),
        ("ID", "instance_availability_zone_id"),
        ("REGION", "instance_region"),
        ("AMI", "ami_id"),
        ("SUBNET", "subnet_id"),
    ]
    .into_iter()
    .fold(captured.to_owned(), |text, (word, key)| {
        text.replace(&format!(":{word},"), &format!(":{},", instance[key]))
    });
    assert_eq!(without_numbers(line.trim_end()), expected);
}

#[test]
fn later_records_have_every_group_of_the_system() {
    let (_folder, root) = place();
    up(&spec("inf2.24xlarge"), &root).unwrap();
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, ".*")));
    stream.record();
    let record = stream.until(|record| {
        let shares = record["system_data"]["vcpu_usage"]["average_usage"].as_object();
        shares.is_some_and(|shares| shares.values().any(|share| *share != json!(0)))
    });
    let system = &record["system_data"];
    let shares = &system["vcpu_usage"]["average_usage"];
    let sum: f64 = shares.as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((99.0..=101.0).contains(&sum), "{shares}");
    assert!(system["vcpu_usage"]["usage_data"]["0"]["idle"].is_number());
    assert!(system["memory_info"]["memory_total_bytes"].as_u64().unwrap() > 0);
    let devices = system["neuron_hw_counters"]["neuron_devices"].as_array().unwrap();
    assert_eq!(devices.len(), 6);
    let none = json!({"neuron_device_index": 5, "mem_ecc_corrected": 0, "mem_ecc_uncorrected": 0,
        "sram_ecc_uncorrected": 0, "sram_ecc_corrected": 0});
    assert_eq!(devices[5], none);
    assert!(system["neuron_hw_counters"]["period"].as_f64().unwrap() >= 0.05);
    assert_eq!(record["neuron_runtime_data"], json!([]), "an idle machine has no runtime");
}

#[rstest]
#[case::trn2("trn2.48xlarge", 3)]
#[case::trn3("trn3.48xlarge", 4)]
fn a_process_is_told_by_its_cores_and_the_load(#[case] instance_type: &str, #[case] version: u8) {
    let (_folder, root) = place();
    up(&MachineSpec { lnc: Some(2), ..spec(instance_type) }, &root).unwrap();
    write_load(&root, "training", 60);
    let this = std::process::id();
    let cores: Vec<u32> = (8..12).collect();
    write_state(
        &root,
        "processes.json",
        &json!([
            {"pid": this, "command": "train", "devices": [1], "cores": cores},
            {"pid": 1, "command": "neuron-ls", "devices": [1], "cores": []}
        ]),
    );
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, ".*")));
    let first = stream.record();
    let report = first["neuron_runtime_data"][0]["report"].as_object().unwrap().clone();
    assert_eq!(report.keys().collect::<Vec<_>>(), ["memory_used"], "what happened in a period comes later");

    let record = stream.until(|record| {
        record["neuron_runtime_data"][0]["report"]["execution_stats"]["execution_summary"]["completed"]
            != json!(0)
    });
    let runtimes = record["neuron_runtime_data"].as_array().unwrap();
    assert_eq!(runtimes.len(), 1);
    let runtime = &runtimes[0];
    assert_eq!((&runtime["pid"], &runtime["neuron_runtime_tag"]), (&json!(this), &json!(this.to_string())));

    let in_use = runtime["report"]["neuroncore_counters"]["neuroncores_in_use"].as_object().unwrap();
    assert_eq!(in_use.keys().collect::<Vec<_>>(), ["4", "5"]);
    let percent = |core: &Value| core["neuroncore_utilization"].as_f64().unwrap();
    let parts = in_use["4"][format!("v{version}d")].as_object().unwrap();
    let names = [8, 9].map(|core| format!("nc_v{version}.{core}"));
    assert_eq!(parts.keys().collect::<Vec<_>>(), names.each_ref());
    let mean = (percent(&parts[&names[0]]) + percent(&parts[&names[1]])) / 2.0;
    assert!((80.0..=98.0).contains(&mean) && (percent(&in_use["4"]) - mean).abs() < 0.01, "{in_use:?}");
    assert!(in_use["4"]["flops"].as_u64().unwrap() > 0);

    let used = &runtime["report"]["memory_used"]["neuron_runtime_used_bytes"];
    let by_core = used["usage_breakdown"]["neuroncore_memory_usage"].as_object().unwrap();
    let sum: u64 = by_core
        .values()
        .flat_map(|core| core.as_object().unwrap().values())
        .map(|bytes| bytes.as_u64().unwrap())
        .sum();
    assert_eq!(used["neuron_device"], json!(sum));
    let half = Catalog::embedded().find(instance_type).unwrap().device_memory_bytes / 2;
    assert!(sum > 0 && sum < half, "four of eight cores cannot hold more than half of its memory: {sum}");
    let models = runtime["report"]["memory_used"]["loaded_models"].as_array().unwrap();
    let at = |model: &Value, key: &str| model["subgraphs"]["sg_00"][key].clone();
    assert_eq!(
        (at(&models[1], "neuroncore_index"), at(&models[1], "neuron_device_index")),
        (json!(1), json!(1))
    );

    let latency = &runtime["report"]["execution_stats"]["latency_stats"];
    let total = |name: &str| latency["total_latency"][name].as_f64().unwrap();
    let ascending = ["p0", "p1", "p25", "p50", "p75", "p99", "p100"].map(total);
    assert!(ascending.is_sorted() && total("p50") > latency["device_latency"]["p50"].as_f64().unwrap());
    assert_eq!(runtime["report"]["neuron_runtime_vcpu_usage"]["error"], "");
}

/// The whole of a record, for who reads the code; its numbers are of one second of the load.
#[test]
fn a_record_of_an_idle_process_looks_so() {
    let (_folder, root) = place();
    up(&spec("inf1.6xlarge"), &root).unwrap();
    // No process has this number: Linux has four millions of them at most.
    write_state(
        &root,
        "processes.json",
        &json!([{"pid": 4_200_000, "command": "infer", "devices": [3], "cores": [12, 13]}]),
    );
    let mut stream = Stream::start(neuron_monitor(&root).arg("--config-file").arg(quick(&root, ".*")));
    stream.record();
    let mut runtimes = stream.record()["neuron_runtime_data"].clone();
    for group in runtimes[0]["report"].as_object_mut().unwrap().values_mut() {
        assert!(group["period"].as_f64().unwrap() >= 0.05);
        group["period"] = json!(0.05);
    }
    insta::assert_json_snapshot!("idle_process", runtimes);
}

#[rstest]
#[case("^train", &["train-1"])]
#[case("1$", &["train-1"])]
#[case(".*", &["train-1"])]
#[case("infer", &[])]
fn tags_are_filtered(#[case] filter: &str, #[case] told: &[&str]) {
    let (_folder, root) = place();
    up(&spec("trn1.2xlarge"), &root).unwrap();
    // The process that is told about is the monitor of another stream.
    let tagged = Stream::start(neuron_monitor(&root).env("NEURON_PROCESS_TAG", "train-1"));
    write_state(
        &root,
        "processes.json",
        &json!([
            {"pid": tagged.child.id(), "command": "train", "devices": [0], "cores": [0]}
        ]),
    );
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, filter)));
    let tags: Vec<Value> = stream.record()["neuron_runtime_data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|runtime| runtime["neuron_runtime_tag"].clone())
        .collect();
    assert_eq!(tags, told);
}

#[test]
fn a_load_without_processes_is_that_of_who_started_the_monitor() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let record = Stream::start(neuron_monitor(&root).args(["--load", "training"])).record();
    assert_eq!(record["neuron_runtime_data"][0]["pid"], json!(std::process::id()));
    let used = &record["neuron_runtime_data"][0]["report"]["memory_used"]["neuron_runtime_used_bytes"];
    let cores = used["usage_breakdown"]["neuroncore_memory_usage"].as_object().unwrap();
    assert_eq!(cores.keys().collect::<Vec<_>>(), ["0", "1"]);
    write_load(&root, "leak", 0);
    let record = Stream::start(neuron_monitor(&root).args(["--load=idle"])).record();
    assert_eq!(record["neuron_runtime_data"], json!([]), "the flag goes before the file");
}

#[test]
fn a_leak_ends_in_failing_executions() {
    let (_folder, root) = place();
    up(&spec("trn1.2xlarge"), &root).unwrap();
    write_load(&root, "leak", 1000);
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, ".*")));
    let stats = |record: &Value| record["neuron_runtime_data"][0]["report"]["execution_stats"].clone();
    let failing = stats(&stream.until(|record| {
        stats(record)["execution_summary"]["completed_with_err"].as_u64().is_some_and(|failed| failed > 0)
    }));
    assert_eq!(failing["execution_summary"]["completed"], 0);
    assert!(failing["error_summary"]["runtime"].as_u64().unwrap() > 0);
    assert_eq!(failing["latency_stats"], json!({"total_latency": null, "device_latency": null}));
}

#[rstest]
#[case("training", 400 * 24 * 3600)]
#[case("spikes", 400 * 24 * 3600)]
#[case("leak", 3)]
fn a_load_runs_for_more_than_a_year(#[case] profile: &str, #[case] seconds: u64) {
    let (_folder, root) = place();
    up(&spec("inf2.48xlarge"), &root).unwrap();
    write_load(&root, profile, seconds);
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, ".*")));
    let cores = |record: &Value| {
        let counters = &record["neuron_runtime_data"][0]["report"]["neuroncore_counters"];
        counters["neuroncores_in_use"].as_object().map_or(0, serde_json::Map::len)
    };
    stream.until(|record| cores(record) == 24);
}

#[test]
fn errors_of_a_device_are_told_once() {
    let (_folder, root) = place();
    up(&spec("trn1.2xlarge"), &root).unwrap();
    let counter = "sys/devices/virtual/neuron_device/neuron0/stats/hardware/mem_ecc_uncorrected";
    let set = |count: &str| {
        let new = root.with_file_name("counter");
        fs::write(&new, format!("{count}\n")).unwrap();
        fs::rename(new, root.join(counter)).unwrap();
    };
    set("7");
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, ".*")));
    let errors = |record: &Value| {
        let devices = &record["system_data"]["neuron_hw_counters"]["neuron_devices"];
        devices[0]["mem_ecc_uncorrected"].as_u64().unwrap_or(0)
    };
    stream.record();
    assert_eq!(errors(&stream.record()), 0, "those before the monitor's start are not its");
    set("10");
    assert_eq!(errors(&stream.until(|record| errors(record) > 0)), 3);
    assert_eq!(errors(&stream.record()), 0);
}

#[test]
fn a_group_has_its_own_period() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let config = write(
        &root,
        r#"{"period": "40ms", "k8s_info": true, "system_metrics": [{"type": "memory_info"}, {"type": "vcpu_usage", "period": "1h"}]}"#,
    );
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(config));
    for _ in 0..5 {
        let record = stream.record();
        let groups: Vec<_> = record["system_data"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(groups, ["memory_info"]);
        assert!(record["neuron_hardware_info"].is_object() && record["instance_info"].is_object());
    }
}

/// Every type of the catalog at every LNC.
#[test]
fn the_hardware_is_the_catalogs() {
    for model in Catalog::embedded().types() {
        let settings: &[u8] = if model.generation >= Generation::Trn2 { &[1, 2] } else { &[1] };
        for lnc in settings {
            let (_folder, root) = place();
            up(&MachineSpec { lnc: Some(*lnc), ..spec(&model.name) }, &root).unwrap();
            let record = Stream::start(&mut neuron_monitor(&root)).record();
            let hardware = &record["neuron_hardware_info"];
            assert_eq!(record["instance_info"]["instance_type"], json!(model.name));
            assert_eq!(hardware["neuron_device_count"], json!(model.devices), "{}", model.name);
            assert_eq!(hardware["neuron_device_memory_size"], json!(model.device_memory_bytes));
            assert_eq!(hardware["neuroncore_per_device_count"], json!(model.cores_per_device / lnc));
            assert_eq!(hardware["logical_neuroncore_config"], json!(lnc));
            assert_eq!(hardware["error"], "");
        }
    }
}

#[test]
fn without_devices_it_runs_and_says_so() {
    let (_folder, root) = place();
    fs::create_dir(&root).unwrap();
    let mut stream = Stream::start(neuron_monitor(&root).arg("-c").arg(quick(&root, ".*")));
    let record = stream.until(|record| record["system_data"]["neuron_hw_counters"].is_object());
    // Nothing that names the fake: unmodified programs read it.
    assert_eq!(record["neuron_hardware_info"]["error"], "failed to discover Neuron devices");
    assert_eq!(record["neuron_hardware_info"]["neuron_device_count"], 0);
    assert_eq!(record["system_data"]["neuron_hw_counters"]["error"], "no Neuron devices");
    assert_eq!(record["instance_info"]["error"], "no instance id in DMI");
}
