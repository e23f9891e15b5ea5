//! What every test of `neuron-monitor` needs: short ways to start it, to read its records, and to write what it reads.

#![allow(dead_code, reason = "no test file uses all of it")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::process::Pid;
use serde_json::{Value, json};

/// The longest that a record or an end may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The program under its other name, reading the machine under `root`.
pub(crate) fn neuron_monitor(root: &Path) -> Command {
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
pub(crate) struct Stream {
    pub(crate) child: Child,
    pub(crate) records: BufReader<UnixStream>,
}

impl Stream {
    pub(crate) fn start(command: &mut Command) -> Stream {
        let (ours, its) = UnixStream::pair().unwrap();
        ours.set_read_timeout(Some(PATIENCE)).unwrap();
        let child = command.stdout(OwnedFd::from(its)).spawn().unwrap();
        // The command holds the other end, too.
        command.stdout(Stdio::null());
        Stream { child, records: BufReader::new(ours) }
    }

    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        self.records.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "{line:?}");
        line
    }

    pub(crate) fn record(&mut self) -> Value {
        serde_json::from_str(&self.line()).unwrap()
    }

    /// The first record from the second one on that the test waits for.
    pub(crate) fn until(&mut self, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = std::time::Instant::now() + PATIENCE;
        loop {
            let record = self.record();
            if is_it(&record) {
                return record;
            }
            assert!(std::time::Instant::now() < deadline, "still {record}");
        }
    }

    pub(crate) fn pid(&self) -> Pid {
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
pub(crate) fn quick(root: &Path, tag_filter: &str) -> PathBuf {
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

pub(crate) fn write(root: &Path, config: &str) -> PathBuf {
    let file = root.with_file_name("monitor.conf");
    fs::write(&file, config).unwrap();
    file
}

pub(crate) fn write_state(root: &Path, name: &str, value: &Value) {
    fs::create_dir_all(root.join(".fake-neuron")).unwrap();
    fs::write(root.join(".fake-neuron").join(name), value.to_string()).unwrap();
}

/// A load that began so many seconds ago.
pub(crate) fn write_load(root: &Path, profile: &str, seconds: u64) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    write_state(root, "load.json", &json!({"profile": profile, "started": now - seconds}));
}
