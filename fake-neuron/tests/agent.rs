//! The agent and containers that runc makes: each sees its own devices, and all share the machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod program;

use std::fs;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::JoinHandle;

use common::{place, spec, up};
use fake_neuron::DRIVER_MAJOR;
use fake_neuron::agent::{Agent, Container, Report, install, lost_event, profile};
use fake_neuron::pci::places;
use fake_neuron_seccomp::send;
use k8s_openapi::jiff::Timestamp;
use program::{Linked, program};
use serde_json::{Value, json};
use testkit_support::eventually;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A node: a machine, an agent, and room for containers.
struct Node {
    folder: tempfile::TempDir,
    program: PathBuf,
    serving: Option<(UnixStream, JoinHandle<()>)>,
    reports: UnboundedReceiver<Report>,
}

/// A container that runs.
struct Running {
    child: Child,
}

impl Node {
    /// None where containers cannot be run here, which is an error where `NEURON_REQUIRE_FAKE=1`.
    fn new(instance_type: &str) -> Option<Node> {
        let program = program(Linked::Statically)?;
        let is_there =
            Command::new("runc").arg("--version").output().is_ok_and(|output| output.status.success());
        let why = match (is_there, rustix::process::geteuid().is_root()) {
            (true, true) => None,
            (false, _) => Some("runc is not installed"),
            (_, false) => Some("only root makes containers with device nodes"),
        };
        if let Some(why) = why {
            assert!(std::env::var("NEURON_REQUIRE_FAKE").as_deref() != Ok("1"), "{why}");
            println!("skipped: {why}");
            return None;
        }
        let (folder, root) = place();
        up(&spec(instance_type), &root).unwrap();
        let mut node = Node { folder, program, serving: None, reports: unbounded_channel().1 };
        node.start_agent();
        Some(node)
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    fn start_agent(&mut self) {
        let (sender, reports) = unbounded_channel();
        let agent = Agent::start(&self.socket(), &self.folder.path().join("node"), sender).unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let serving = std::thread::spawn(move || agent.run(theirs.as_fd()).unwrap());
        (self.serving, self.reports) = (Some((ours, serving)), reports);
    }

    fn end_agent(&mut self) {
        if let Some((stop, serving)) = self.serving.take() {
            drop(stop);
            serving.join().unwrap();
        }
    }

    fn next_report(&mut self) -> Report {
        self.reports.blocking_recv().unwrap()
    }

    /// A command that runs the program in a container of its own, with the devices of these minor numbers as neuron0 and so on.
    fn container(&self, name: &str, devices: &[u8], words: &[&str]) -> Command {
        let bundle = self.folder.path().join(name);
        fs::create_dir_all(bundle.join("rootfs/proc")).unwrap();
        fs::create_dir_all(bundle.join("rootfs/dev")).unwrap();
        fs::copy(&self.program, bundle.join("rootfs/discover")).unwrap();
        let config = configuration(name, devices, words, &profile(&self.socket()));
        fs::write(bundle.join("config.json"), config.to_string()).unwrap();
        let mut command = Command::new("runc");
        command.arg("--root").arg(self.folder.path().join("runc")).args(["run", "--bundle"]).arg(&bundle);
        // Names are those of control groups too.
        command.arg(format!("fake-neuron-{}-{name}", std::process::id()));
        command
    }

    fn run(&self, name: &str, devices: &[u8], words: &[&str]) -> Output {
        self.container(name, devices, words).output().unwrap()
    }

    fn start(&self, name: &str, devices: &[u8], words: &[&str]) -> Running {
        let mut command = self.container(name, devices, words);
        Running { child: command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap() }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.end_agent();
    }
}

impl Running {
    fn first_line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        let output = self.child.stdout.as_mut().unwrap();
        while output.read(&mut byte).unwrap() == 1 && byte != *b"\n" {
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    /// What else it prints until it ends, which it does when its input ends.
    fn finish(mut self) -> String {
        drop(self.child.stdin.take());
        let mut printed = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        self.child.wait().unwrap();
        printed
    }
}

fn configuration(name: &str, devices: &[u8], words: &[&str], profile: &Value) -> Value {
    let devices: Vec<Value> = (0..)
        .zip(devices)
        .map(|(number, minor)| {
            json!({"path": format!("/dev/neuron{number}"), "type": "c", "major": DRIVER_MAJOR, "minor": minor,
                "fileMode": 0o666, "uid": 0, "gid": 0})
        })
        .collect();
    let words: Vec<&str> = ["/discover"].iter().chain(words).copied().collect();
    let namespaces: Vec<Value> =
        ["mount", "pid", "ipc", "uts"].iter().map(|kind| json!({"type": kind})).collect();
    json!({
        "ociVersion": "1.0.2",
        "process": {"user": {"uid": 65532, "gid": 65532}, "args": words, "cwd": "/", "env": [], "noNewPrivileges": true},
        "root": {"path": "rootfs", "readonly": true},
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
        ],
        "annotations": {
            "io.kubernetes.cri.sandbox-namespace": "default",
            "io.kubernetes.cri.sandbox-name": name,
            "io.kubernetes.cri.sandbox-uid": "5f0c",
            "io.kubernetes.cri.container-name": "main",
        },
        "linux": {"namespaces": namespaces, "devices": devices, "seccomp": profile},
    })
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_container_sees_its_own_devices_by_the_hosts_numbers() {
    let Some(mut node) = Node::new("trn1.32xlarge") else { return };
    let told = printed(&node.run("one", &[5, 13], &["facts", "2"]));
    let address = places("trn1.32xlarge", 16)[5].address;
    let expected = format!("neuron0 bdf_ext {address}\nneuron0 host id 5\n");
    assert!(
        told.starts_with("neuron0 arch 2 revision 0 links 1 4 9 6\n") && told.contains(&expected),
        "{told}"
    );
    assert!(told.contains("\nneuron1 host id 13\n"), "{told}");
    let Report::Serving(Container { namespace, pod, name, devices, .. }) = node.next_report() else {
        panic!()
    };
    assert_eq!((namespace.as_str(), pod.as_str(), name.as_str()), ("default", "one", "main"));
    assert_eq!(devices, [(0, 5), (1, 13)]);
    assert!(matches!(node.next_report(), Report::Ended(Container { pod, .. }) if pod == "one"));
}

#[test]
fn cores_that_one_container_holds_are_busy_for_another() {
    let Some(node) = Node::new("trn1.32xlarge") else { return };
    let mut first = node.start("first", &[5], &["reserve", "2", "0", "1"]);
    assert_eq!(first.first_line(), "marked: 0 1");
    let second = node.run("second", &[5], &["reserve", "1", "0", "1"]);
    assert_eq!(String::from_utf8_lossy(&second.stdout), "mark: EBUSY\nlongest 0\n");
    assert_eq!(printed(&node.run("third", &[13], &["reserve", "1", "0", "1"])), "marked: 0\n");
    let held = || {
        let processes = fake_neuron::state::processes(&node.folder.path().join("node")).unwrap();
        processes.into_iter().map(|process| process.cores).collect::<Vec<_>>()
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let only_the_first = async || (held() == [[10, 11]]).then_some(());
    runtime.block_on(eventually("the list to have the first container alone", only_the_first));
    first.finish();
    assert_eq!(printed(&node.run("fourth", &[5], &["reserve", "2", "0", "1"])), "marked: 0 1\n");
}

#[test]
fn a_container_that_an_agent_leaves_is_reported_by_the_next_one() {
    let Some(mut node) = Node::new("trn1.2xlarge") else { return };
    let mut left = node.start("left", &[0], &["outlive"]);
    assert_eq!(left.first_line(), "host id: 0");
    node.end_agent();
    assert!(matches!(node.next_report(), Report::Serving(_)));
    assert!(matches!(node.next_report(), Report::Left(Container { pod, .. }) if pod == "left"));
    let refused = node.run("absent", &[0], &["hold"]);
    assert!(!refused.status.success());
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("agent.sock"), "{said}");
    node.start_agent();
    assert!(matches!(node.next_report(), Report::Lost(Container { pod, .. }) if pod == "left"));
    assert_eq!(left.finish(), "host id: ENOSYS\n");
    node.end_agent();
    node.start_agent();
    printed(&node.run("next", &[0], &["facts", "1"]));
    assert!(matches!(node.next_report(), Report::Serving(Container { pod, .. }) if pod == "next"));
}

#[test]
fn a_request_that_is_none_is_reported_and_hurts_nobody() {
    let (folder, root) = place();
    let socket = folder.path().join("agent.sock");
    let (sender, mut reports) = unbounded_channel();
    let agent = Agent::start(&socket, &root, sender).unwrap();
    let again = Agent::start(&socket, &root, unbounded_channel().0).unwrap_err().to_string();
    assert_eq!(
        again,
        format!("another agent answers at {}: end it first, or give another --socket", socket.display())
    );
    let (stop, theirs) = UnixStream::pair().unwrap();
    let serving = std::thread::spawn(move || agent.run(theirs.as_fd()).unwrap());
    let mut said = |request: &str| {
        UnixStream::connect(&socket).unwrap().write_all(request.as_bytes()).unwrap();
        match reports.blocking_recv().unwrap() {
            Report::NotUnderstood(reason) => reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(said("hello").starts_with("the request is no state of a container's process: "));
    let state = r#"{"ociVersion": "1.0.2", "fds": ["other"], "pid": 1, "state": {"id": "c"}}"#;
    assert_eq!(said(state), "the request names no descriptor seccompFd");
    let state = state.replace("other", "seccompFd");
    assert_eq!(said(&state), "no listener came with the request");
    // A descriptor that is none of the kernel's listeners: who waits for a call there gets an error.
    let (no_listener, mut writes) = UnixStream::pair().unwrap();
    writes.write_all(b"no call").unwrap();
    send(UnixStream::connect(&socket).unwrap(), state.as_bytes(), no_listener.as_fd()).unwrap();
    assert!(matches!(reports.blocking_recv().unwrap(), Report::Serving(Container { id, .. }) if id == "c"));
    let Report::Failed(Container { id, .. }, reason) = reports.blocking_recv().unwrap() else { panic!() };
    assert_eq!((id.as_str(), reason.is_empty()), ("c", false));
    drop(stop);
    serving.join().unwrap();
    assert!(!socket.exists());
}

#[test]
fn the_event_names_the_pod_and_says_what_to_do() {
    let container = Container {
        namespace: "default".into(),
        pod: "train".into(),
        pod_uid: "5f0c".into(),
        name: "main".into(),
        ..Container::default()
    };
    let event = lost_event(&container, "the one that did has ended", "n1", Timestamp::UNIX_EPOCH);
    // A name that begins so is one to the API server: it refuses "train.".
    assert_eq!(event.metadata.generate_name.as_deref(), Some("train-"));
    let regarding = event.regarding.unwrap();
    assert_eq!((regarding.kind.as_deref(), regarding.name.as_deref()), (Some("Pod"), Some("train")));
    assert_eq!(regarding.uid.as_deref(), Some("5f0c"));
    assert_eq!(event.reason.as_deref(), Some("NeuronIoctlsLost"));
    assert_eq!(
        event.note.as_deref(),
        Some(
            "Each open and ioctl of container main fails with ENOSYS. Delete the pod. No fake-neuron agent answers it: the one that did has ended"
        )
    );
}

#[test]
fn the_profile_names_the_socket_and_what_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("seccomp/fake-neuron.json");
    install(&file, Path::new("/run/fake-neuron/agent.sock")).unwrap();
    let profile: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!(profile["listenerPath"], "/run/fake-neuron/agent.sock");
    assert_eq!(profile["defaultAction"], "SCMP_ACT_ALLOW");
    let names: Vec<&Value> =
        profile["syscalls"].as_array().unwrap().iter().map(|rule| &rule["names"][0]).collect();
    assert_eq!(names, ["openat", "open", "openat2", "ioctl"]);
}
