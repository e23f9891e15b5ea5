//! Programs of others, from PyPI, find inside `fake-neuron exec` what each one's own rule makes of the type. They run as they are;
//! the scripts in `public/` only call them and print. No client of the ioctls can be installed: `ioctl.rs` speaks for those.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod python;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use neuron_core::catalog::{Catalog, Generation, InstanceType};
use python::PYTHON;
use rstest::rstest;
use serde_json::{Value, json};

fn public(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public").join(name)
}

/// `fake-neuron exec` with these options, and the script and its arguments; none where one of both cannot be had here.
fn exec(options: &[&str], script: &str, arguments: &[&str]) -> Option<Command> {
    let python = match &*PYTHON {
        Ok(python) => python.join("python"),
        Err(why) => return skipped("NEURON_REQUIRE_PYPI", why),
    };
    let mut possible = fake_neuron();
    let tried = possible.args(["exec", "--instance-type", "inf2.xlarge", "--", "true"]).output().unwrap();
    if !tried.status.success() {
        return skipped("NEURON_REQUIRE_FAKE", String::from_utf8_lossy(&tried.stderr).trim());
    }
    let mut command = fake_neuron();
    command.arg("exec").args(options).arg("--").arg(python).arg(public(script)).args(arguments);
    // What the programs would heed of the host's.
    for variable in ["LOCAL_RANK", "NEURON_RT_VISIBLE_CORES", "RAY_ADDRESS", "WANDB_MODE"] {
        command.env_remove(variable);
    }
    Some(command)
}

fn fake_neuron() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fake-neuron"));
    for variable in ["NEURON_ROOT", "FAKE_NEURON_ROOT", "NEURON_LOGICAL_NC_CONFIG"] {
        command.env_remove(variable);
    }
    command
}

/// Says why a test does not run; fails instead where the variable says that it must.
fn skipped(required: &str, why: &str) -> Option<Command> {
    assert!(std::env::var_os(required).is_none(), "{required} is set, but {why}");
    println!("skipped: {why}");
    None
}

/// The last line that the program printed, as JSON.
fn answer(output: &Output) -> Value {
    let (printed, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{printed}\n{said}", output.status);
    let line = printed.lines().last().unwrap_or_default();
    serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {printed}\n{said}"))
}

fn model(name: &str) -> &'static InstanceType {
    Catalog::embedded().find(name).unwrap()
}

/// The options of a type at its own LNC or at another one, and its number of logical cores.
fn machine(name: &'static str, lnc: Option<u8>) -> (Vec<&'static str>, u32) {
    let mut options = vec!["--instance-type", name];
    match lnc {
        Some(1) => options.extend(["--lnc", "1"]),
        Some(2) => options.extend(["--lnc", "2"]),
        _ => {}
    }
    let model = model(name);
    let logical = model.cores_per_device / lnc.unwrap_or(model.default_lnc);
    (options, u32::from(model.devices) * u32::from(logical))
}

/// Ray sums up what `neuron-ls --json-output` at its fixed path says; its table has Trn1 and Inf2 only.
#[rstest]
#[case("inf1.6xlarge", None)]
#[case("inf2.48xlarge", None)]
#[case("trn1.2xlarge", None)]
#[case("trn1.32xlarge", None)]
#[case("trn2.3xlarge", Some(1))]
#[case("trn2.48xlarge", None)]
#[case("trn3e.24xlarge", None)]
fn ray_detects_the_logical_cores(#[case] name: &'static str, #[case] lnc: Option<u8>) {
    let (options, cores) = machine(name, lnc);
    let Some(mut ray) = exec(&options, "ray_detect.py", &[name]) else { return };
    let has_row = matches!(model(name).generation, Generation::Trn1 | Generation::Inf2);
    let in_table = if has_row { json!(cores) } else { Value::Null };
    assert_eq!(answer(&ray.output().unwrap()), json!({"detected": cores, "in its table": in_table}));
}

/// A whole Ray cluster, dozens of processes and threads: the node has the cores, and a task is given two of them.
#[rstest]
#[case("trn1.32xlarge", 32.0)]
#[case("trn2.48xlarge", 64.0)]
fn a_ray_cluster_schedules_by_the_cores(#[case] name: &'static str, #[case] cores: f64) {
    let (options, _) = machine(name, None);
    let Some(mut ray) = exec(&options, "ray_cluster.py", &[]) else { return };
    let accelerator = "accelerator_type:aws-neuron-core";
    let expected = json!({"neuron_cores": cores, "accelerator": [accelerator], "visible": "0,1"});
    assert_eq!(answer(&ray.output().unwrap()), expected);
}

/// SageMaker's toolkit sums up what `neuron-ls -j` on PATH says, but takes 64 of any trn2.48xlarge.
#[rstest]
#[case("inf1.24xlarge", None, 64)]
#[case("inf2.24xlarge", None, 12)]
#[case("trn1n.32xlarge", None, 32)]
#[case("trn2u.48xlarge", Some(1), 128)]
#[case::by_the_name_alone("trn2.48xlarge", Some(1), 64)]
#[case("trn3.48xlarge", None, 64)]
fn sagemaker_finds_the_cores(#[case] name: &'static str, #[case] lnc: Option<u8>, #[case] cores: u32) {
    let (options, _) = machine(name, lnc);
    let Some(mut sagemaker) = exec(&options, "sagemaker_detect.py", &[&format!("ml.{name}")]) else { return };
    assert_eq!(answer(&sagemaker.output().unwrap()), json!(cores));
}

#[test]
fn sagemaker_finds_nothing_where_the_tools_are_not_on_the_path() {
    let options = ["--instance-type", "trn1.32xlarge", "--no-path"];
    let Some(mut sagemaker) = exec(&options, "sagemaker_detect.py", &["ml.trn1.32xlarge"]) else { return };
    assert_eq!(answer(&sagemaker.output().unwrap()), json!(0));
}

/// xpustat and its exporter show one row a device, with the memory in whole MiB and the ids of its cores.
#[rstest]
#[case("inf1.xlarge", None)]
#[case("inf2.24xlarge", None)]
#[case("trn1.32xlarge", None)]
#[case("trn2.48xlarge", Some(1))]
#[case("trn3.48xlarge", None)]
fn xpustat_shows_every_device(#[case] name: &'static str, #[case] lnc: Option<u8>) {
    let (options, cores) = machine(name, lnc);
    let Some(mut xpustat) = exec(&options, "xpustat_exporter.py", &[]) else { return };
    let shown = answer(&xpustat.output().unwrap());
    let (model, devices) = (model(name), shown["devices"].as_array().unwrap());
    assert_eq!(devices.len(), usize::from(model.devices));
    let places = fake_neuron::pci::places(name, model.devices);
    let each = cores / u32::from(model.devices);
    for (id, (device, place)) in (0..).zip(devices.iter().zip(&places)) {
        assert_eq!(device["neuron_device"], json!(id));
        assert_eq!(device["mem_total_mb"], json!(model.device_memory_bytes >> 20));
        assert_eq!(device["bdf"], json!(place.address.to_string()));
        assert_eq!(device["nc_count"], json!(each));
        assert_eq!(device["neuroncore_ids"], json!((id * each..(id + 1) * each).collect::<Vec<_>>()));
    }
    let metrics = shown["metrics"].as_str().unwrap();
    let last = u32::from(model.devices) - 1;
    let row = format!("vendor=\"neuron\",index=\"{last}\",name=\"AWS Neuron ({each} NeuronCores)\"");
    let memory = format!("xpustat_memory_total_bytes{{{row}}} {}\n", model.device_memory_bytes);
    let count = format!("xpustat_scrape_devices{{vendor=\"neuron\"}} {}\n", model.devices);
    assert!(metrics.contains(&memory) && metrics.contains(&count), "{metrics}");
}

/// What Weights & Biases writes down of a machine under load, and how busy each core was: it runs `neuron-monitor` with a config
/// file of its own.
fn recorded_by_wandb(
    name: &'static str,
    last_core: u32,
    reserved: u8,
    local_rank: Option<u32>,
) -> Option<(Value, BTreeMap<String, f64>)> {
    let options = ["--instance-type", name, "--load", "training"];
    let folder = tempfile::tempdir().unwrap();
    let arguments = [folder.path().to_str().unwrap(), &last_core.to_string(), &reserved.to_string()];
    let mut wandb = exec(&options, "wandb_monitor.py", &arguments)?;
    wandb.envs(local_rank.map(|rank| ("LOCAL_RANK", rank.to_string())));
    let written = answer(&wandb.output().unwrap());
    Some((written["hardware"].clone(), serde_json::from_value(written["metrics"].clone()).unwrap()))
}

/// Whose runtime is asked about is told by the process' id, which is that of the process that reserved the cores.
#[rstest]
#[case("trn1.2xlarge", 2, 2)]
#[case("trn2.3xlarge", 8, 4)]
fn wandb_records_the_cores_of_its_own_process(
    #[case] name: &'static str,
    #[case] reserved: u8,
    #[case] cores: u32,
) {
    let Some((hardware, busy)) = recorded_by_wandb(name, cores - 1, reserved, None) else { return };
    assert_eq!(hardware, json!(["Trainium", 1, cores]));
    let keys: Vec<String> = (0..cores).map(|core| format!("trn.{core}.neuroncore_utilization")).collect();
    assert_eq!(busy.keys().collect::<Vec<_>>(), keys.iter().collect::<Vec<_>>());
    assert!(busy.values().all(|percent| (80.0..=98.0).contains(percent)), "{busy:?}");
}

/// Under torchrun it takes any runtime, and of that one the core that has the process' rank.
#[test]
fn wandb_records_the_core_of_its_rank_under_torchrun() {
    let Some((hardware, busy)) = recorded_by_wandb("trn1.32xlarge", 31, 0, Some(31)) else { return };
    assert_eq!(hardware, json!(["Trainium", 16, 2]));
    assert_eq!(busy.keys().collect::<Vec<_>>(), ["trn.31.neuroncore_utilization"]);
}
