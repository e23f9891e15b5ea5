//! From start to ready with 5,000 nodes and 50,000 pods, beside a bare list of them, and the memory that it takes. Used by the bench
//! `start`.

use std::time::{Duration, Instant};

use fake_cluster::ApiServer;
use tokio::runtime::Runtime;

use crate::api_server::Served;
use crate::figures::{Figures, at_most, median};
use crate::objects::{PODS_OF_NODE, create_all};
use crate::pages::in_pages;
use crate::process::{Process, until_ready};
use crate::ways;

/// How often both are measured.
const ROUNDS: usize = 5;

/// What the start may take, in what the bare list takes, and how much memory at the peak and at rest, in MiB.
const MOST_OF_LIST: f64 = 1.2;
const MOST_AT_PEAK: f64 = 128.0;
const MOST_AT_REST: f64 = 64.0;

/// How long after the start the extender counts as at rest.
const REST: Duration = Duration::from_secs(5);

/// What is called how, and how many pods of a node hold a device.
const MIXES: [(&str, usize); 2] =
    [("one pod in five has a device", 2), ("every pod has a device", PODS_OF_NODE)];

/// One start of the extender.
struct Start {
    took: Duration,
    peak: f64,
    rest: f64,
}

/// Adds what starting takes.
pub(crate) fn add_to(figures: &mut Figures, thread: &Runtime) {
    for (name, holders_of_node) in MIXES {
        let api = ApiServer::default().router();
        eprintln!("creating the objects: {name}");
        thread.block_on(create_all(&api, holders_of_node));
        let served = Served::on(thread, in_pages(api));
        let address = served.address.to_string();
        // The first list has the API server write each object's JSON, which it keeps.
        let (_, size) = list(&address);
        eprintln!("pods and nodes, in bytes: {size}");

        let (mut lists, mut starts) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            lists.push(list(&address).0.as_secs_f64());
            starts.push(start(&address));
        }
        let seconds = || starts.iter().map(|start| start.took.as_secs_f64());
        let ratios = seconds().zip(&lists).map(|(start, list)| start / list);
        let largest = |memory: fn(&Start) -> f64| starts.iter().map(memory).fold(0.0, f64::max);
        figures.add(
            format!("start to ready / bare list, {name}"),
            (median(ratios), ""),
            at_most(MOST_OF_LIST),
        );
        figures.add(format!("start to ready, {name}"), (median(seconds()), "s"), None);
        figures.add(format!("bare list, {name}"), (median(lists.iter().copied()), "s"), None);
        let (peak, rest) = (largest(|start| start.peak), largest(|start| start.rest));
        figures.add(format!("resident at the peak, {name}"), (peak, "MiB"), at_most(MOST_AT_PEAK));
        figures.add(format!("resident at rest, {name}"), (rest, "MiB"), at_most(MOST_AT_REST));
    }
}

/// How long a process takes that lists everything, and what it says.
fn list(api: &str) -> (Duration, String) {
    let began = Instant::now();
    let mut process = Process::start(&[ways::LIST, api]);
    let size = process.line();
    let took = began.elapsed();
    process.ended();
    (took, size)
}

/// How long the extender takes from the start of its process until it is ready.
fn start(api: &str) -> Start {
    let began = Instant::now();
    let mut process = Process::start(&[ways::EXTENDER, api]);
    let address = process.line().parse().expect("where the extender listens");
    until_ready(address);
    let took = began.elapsed();
    std::thread::sleep(REST);
    Start { took, peak: process.memory("VmHWM"), rest: process.memory("VmRSS") }
}
