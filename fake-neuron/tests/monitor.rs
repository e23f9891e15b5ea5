//! `neuron-monitor`: its stream of records, the config file, what drives the counters, and how it ends.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use common::{place, spec, up};
use fake_neuron::MachineSpec;
use neuron_core::catalog::{Catalog, Generation};
use rstest::rstest;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// The longest that a record or an end may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The program under its other name, reading the machine under `root`.
fn neuron_monitor(root: &Path) -> Command {
    let link = root.with_file_name("neuron-monitor");
    if !link.exists() {
        symlink(env!("CARGO_BIN_EXE_fake-neuron"), &link).unwrap();
    }
    let mut command = Command::new(link);
    for variable in
        ["NEURON_ROOT", "NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE", "NEURON_PROCESS_TAG"]
    {
        command.env_remove(variable);
    }
    command.env("FAKE_NEURON_ROOT", root);
    command
}

/// A monitor that runs until this is dropped.
struct Stream {
    child: Child,
    records: BufReader<UnixStream>,
}

impl Stream {
    fn start(command: &mut Command) -> Stream {
        let (ours, its) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let child = command.stdout(OwnedFd::from(its)).spawn().unwrap();
        // The command holds the other end, too.
        command.stdout(Stdio::null());
        Stream { child, records: BufReader::new(ours) }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.records.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{line:?}");
        line
    }

    fn record(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// The first record from the second one on that the test waits for.
    fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let record = self.record();
            if is_it(&record) {
                return record;
            }
            assert!(std::time::Instant::now() < deadline, "still {record}");
        }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A config file with every group, 50 ms long.
fn quick(root: &Path, tag_filter: &str) -> PathBuf {
    let of = |names: &[&str]| names.iter().map(|name| json!({ "type": name })).collect::<Vec<_>>();
    let config = json!({
        "period": "50ms",
        "neuron_runtimes": [{
            "tag_filter": tag_filter,
            "metrics": of(&["neuroncore_counters", "memory_used", "neuron_runtime_vcpu_usage", "execution_stats"]),
        }],
        "system_metrics": of(&["vcpu_usage", "memory_info", "neuron_hw_counters"]),
    });
    write(root, &config.to_string())
}

fn write(root: &Path, config: &str) -> PathBuf {
    let file = root.with_file_name("monitor.conf");
    fs::write(&file, config).unwrap();
    file
}

fn write_state(root: &Path, name: &str, value: &Value) {
    fs::create_dir_all(root.join(".fake-neuron")).unwrap();
    fs::write(root.join(".fake-neuron").join(name), value.to_string()).unwrap();
}

/// A load that began so many seconds ago.
fn write_load(root: &Path, profile: &str, seconds: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    write_state(root, "load.json", &json!({"profile": profile, "started": now - seconds}));
}

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

#[rstest]
#[case(Signal::TERM)]
#[case(Signal::INT)]
fn a_signal_ends_it(#[case] signal: Signal) {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let mut stream = Stream::start(&mut neuron_monitor(&root));
    stream.record();
    kill_process(stream.pid(), signal).unwrap();
    // Its end of the stream closes with it.
    let mut rest = String::new();
    assert_eq!(stream.records.read_line(&mut rest).unwrap(), 0);
    assert_eq!(stream.child.wait().unwrap().code(), Some(0));
}

#[test]
fn it_ends_when_nobody_reads_any_more() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let script = "\"$0\" -c \"$1\" | head -2 | wc -l";
    let program = neuron_monitor(&root).get_program().to_owned();
    let output = Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .arg(quick(&root, ".*"))
        .env("FAKE_NEURON_ROOT", &root)
        .output()
        .unwrap();
    assert_eq!((String::from_utf8_lossy(&output.stdout).trim(), output.stderr.len()), ("2", 0));
}

/// Exit code and what was said on both streams.
fn refused(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[rstest]
#[case(&["--badflag"], "unknown flag `badflag'\n")]
#[case(&["-x"], "unknown flag `x'\n")]
#[case(&["-c"], "expected argument for flag `-c, --config-file'\n")]
#[case(&["--verbose", "9"], "invalid argument for flag `--verbose' (expected a number from 0 to 4)\n")]
#[case(&["--load", "heavy"], "load profile heavy is not known: give one of idle, training, leak, spikes\n")]
fn a_bad_flag_is_told_on_standard_output(#[case] flags: &[&str], #[case] text: &str) {
    let (_folder, root) = place();
    let output = neuron_monitor(&root).args(flags).output().unwrap();
    assert_eq!(refused(&output), (Some(1), text.to_owned(), String::new()));
}

#[rstest]
#[case("{", "FILE is no configuration of neuron-monitor: EOF while parsing an object at line 1 column 1")]
#[case(r#"{"period": "5"}"#, r#"FILE: period \"5\" is none: write it like 1s, 500ms or 1m30s"#)]
#[case(r#"{"period": "0s"}"#, r#"FILE: period \"0s\" is none: write it like 1s, 500ms or 1m30s"#)]
#[case(
    r#"{"neuron_runtimes": [{"period": "1 s"}]}"#,
    r#"FILE: period \"1 s\" is none: write it like 1s, 500ms or 1m30s"#
)]
fn a_config_that_cannot_be_used_is_told(#[case] config: &str, #[case] error: &str) {
    let (_folder, root) = place();
    let file = write(&root, config);
    let (code, out, err) = refused(&neuron_monitor(&root).arg("-c").arg(&file).output().unwrap());
    assert_eq!((code, out.as_str()), (Some(1), ""));
    let error = error.replace("FILE", file.to_str().unwrap());
    assert!(
        err.ends_with(&format!(" level=fatal msg=\"Failed to read the configuration\" error=\"{error}\"\n")),
        "{err}"
    );
}

#[test]
fn a_filter_or_a_file_that_is_none_is_told() {
    let (_folder, root) = place();
    let err = |file: &Path| refused(&neuron_monitor(&root).arg("-c").arg(file).output().unwrap()).2;
    let filter = write(&root, r#"{"neuron_runtimes": [{"tag_filter": "("}]}"#);
    assert!(err(&filter).contains(r#"tag_filter \"(\" is no regular expression"#), "{}", err(&filter));
    assert!(err(Path::new("/nowhere")).contains("/nowhere cannot be read: No such file or directory"));
}

#[test]
fn a_group_of_an_older_version_is_left_out_and_told() {
    let (_folder, root) = place();
    up(&spec("inf1.xlarge"), &root).unwrap();
    let config = write(&root, r#"{"system_metrics": [{"type": "hw_counters"}, {"type": "memory_info"}]}"#);
    let (ours, its) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut command = neuron_monitor(&root);
    command.arg("-c").arg(config).stderr(OwnedFd::from(its));
    let _stream = Stream::start(&mut command);
    let mut line = String::new();
    BufReader::new(ours).read_line(&mut line).unwrap();
    let (time, rest) = line.split_at(line.find(' ').unwrap());
    assert!(time.starts_with("time=\"20"), "{line}");
    assert_eq!(rest, " level=warning msg=\"metric group \\\"hw_counters\\\" is not known and left out\"\n");
}
