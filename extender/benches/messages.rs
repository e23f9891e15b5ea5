//! What reading a page of pods costs with our own messages and with those of the crate `k8s-pb` (ADR 0032):
//!
//! ```sh
//! cargo bench -p neuron-extender --bench messages
//! ```
//!
//! Each way runs in a process of its own, so that its peak memory is its own. Absolute figures are the machine's; what counts
//! is the ratios.
#![expect(clippy::expect_used, reason = "a measurement that cannot be made has nothing else to say")]
#![expect(clippy::disallowed_methods, reason = "what is measured is this machine's time")]

#[path = "../src/protobuf/messages.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the extender's messages, as they are; tests do not run in a bench"
)]
mod messages;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

use k8s_pb::api::core::v1 as pb;
use k8s_pb::apimachinery::pkg::api::resource::Quantity;
use k8s_pb::apimachinery::pkg::apis::meta::v1 as meta;
use prost::Message as _;
use prost::bytes::Bytes;

/// Pods of a page, as the extender asks for.
const PAGE: usize = 500;
const PAGES: usize = 40;

/// What a way is called, and the pods' UIDs read that way, as their total length.
type Way = (&'static str, fn(&[Bytes]) -> usize);

/// The ways to read a page.
const WAYS: [Way; 3] = [
    ("our messages, pod by pod", |page| {
        page.iter()
            .map(|pod| messages::Pod::decode(pod.clone()).map_or(0, |pod| pod.metadata.uid.len()))
            .sum()
    }),
    ("k8s-pb, pod by pod", |page| {
        page.iter().map(|pod| pb::Pod::decode(pod.clone()).map_or(0, |pod| uid_length(&pod))).sum()
    }),
    ("k8s-pb, the whole page", |page| {
        let pods: Vec<pb::Pod> = page.iter().filter_map(|pod| pb::Pod::decode(pod.clone()).ok()).collect();
        pods.iter().map(uid_length).sum()
    }),
];

fn main() {
    if let Some(way) = std::env::args().nth(1).and_then(|way| way.parse::<usize>().ok()) {
        return read(way);
    }
    println!("a pod has {} bytes", pod().encoded_len());
    let mut ours = None;
    for (place, (name, _)) in WAYS.iter().enumerate() {
        let program = std::env::current_exe().expect("this program's path");
        let output = Command::new(program).arg(place.to_string()).output().expect("a process for a way");
        let text = String::from_utf8(output.stdout).expect("numbers");
        let mut numbers = text.split_whitespace().map(|number| number.parse::<f64>().expect("a number"));
        let (time, peak) = (numbers.next().expect("a time"), numbers.next().expect("a peak"));
        let times = time / *ours.get_or_insert(time);
        println!("{name:26} {time:6.1} us a pod, {times:4.1} times ours; {peak:5.0} KiB at the peak");
    }
    let bytes = not_utf8();
    let said = |read: Result<(), prost::DecodeError>| {
        read.map_or_else(|error| error.to_string(), |()| "read".into())
    };
    println!("a termination message that is not UTF-8:");
    println!("  our messages: {}", said(messages::Pod::decode(bytes.as_slice()).map(drop)));
    println!("  k8s-pb: {}", said(pb::Pod::decode(bytes.as_slice()).map(drop)));
}

/// Reads the pages in one way and prints the microseconds of a pod, best of five, and the peak memory that reading took in KiB.
fn read(way: usize) {
    let page: Vec<Bytes> = (0..PAGE).map(|_| Bytes::from(pod().encode_to_vec())).collect();
    let before = peak_memory();
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        for _ in 0..PAGES {
            black_box((WAYS[way].1)(black_box(&page)));
        }
        best = best.min(began.elapsed().as_secs_f64());
    }
    println!("{} {}", best * 1e6 / (PAGE * PAGES) as f64, peak_memory() - before);
}

/// The most memory that this process has had, in KiB.
fn peak_memory() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux' status of this process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("VmHWM");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

fn uid_length(pod: &pb::Pod) -> usize {
    pod.metadata.as_ref().and_then(|metadata| metadata.uid.as_ref()).map_or(0, String::len)
}

fn not_utf8() -> Vec<u8> {
    let mut pod = pod();
    let terminated = pb::ContainerStateTerminated { message: Some("NOTUTF8!".into()), ..Default::default() };
    let state = pb::ContainerState { terminated: Some(terminated), ..Default::default() };
    let status = pb::ContainerStatus { state: Some(state), ..Default::default() };
    pod.status = Some(pb::PodStatus { container_statuses: vec![status], ..Default::default() });
    let mut bytes = pod.encode_to_vec();
    if let Some(at) = bytes.windows(8).position(|window| window == b"NOTUTF8!") {
        bytes[at] = 0xff;
    }
    bytes
}

/// A pod as they are: two containers with variables and mounts, labels, annotations, managed fields.
fn pod() -> pb::Pod {
    let map = |count: usize| (0..count).map(|at| (format!("example.com/key-{at}"), "v".repeat(30))).collect();
    let amounts: BTreeMap<String, Quantity> =
        [("aws.amazon.com/neuron", "1"), ("cpu", "4"), ("memory", "16Gi")]
            .map(|(name, amount)| (name.to_owned(), Quantity { string: Some(amount.to_owned()) }))
            .into();
    let container = |name: &str| pb::Container {
        name: Some(name.to_owned()),
        image: Some("registry.example.com/team/app:2026.11.22-abcdef".into()),
        args: (0..8).map(|at| format!("--option-{at}=value-{at}")).collect(),
        env: (0..20)
            .map(|at| pb::EnvVar {
                name: Some(format!("VARIABLE_{at}")),
                value: Some("some value of it".into()),
                value_from: None,
            })
            .collect(),
        resources: Some(pb::ResourceRequirements {
            limits: amounts.clone(),
            requests: amounts.clone(),
            claims: Vec::new(),
        }),
        ..Default::default()
    };
    let managed = meta::ManagedFieldsEntry {
        manager: Some("kubelet".into()),
        fields_v1: Some(meta::FieldsV1 { raw: Some(vec![b'x'; 900]) }),
        ..Default::default()
    };
    pb::Pod {
        metadata: Some(meta::ObjectMeta {
            name: Some("workload-7d9f8c6b5-00001".into()),
            namespace: Some("default".into()),
            uid: Some("0f0e0d0c-0b0a-0908-0706-050403020100".into()),
            labels: map(6),
            annotations: map(10),
            managed_fields: vec![managed; 3],
            ..Default::default()
        }),
        spec: Some(pb::PodSpec {
            containers: vec![container("main"), container("metrics")],
            node_name: Some("node-1".into()),
            ..Default::default()
        }),
        status: Some(pb::PodStatus { phase: Some("Running".into()), ..Default::default() }),
    }
}
