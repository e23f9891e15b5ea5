//! What a C program is told by `/dev/neuronN`: every number and structure for every type, and who may have what.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;
mod program;

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use common::{read, spec};
use fake_neuron::fault::Fault;
use fake_neuron::ioctl::{Reserved, Visible, Watch, discover};
use fake_neuron::pci::places;
use fake_neuron::{Blueprint, Machine};
use neuron_core::catalog::{Catalog, Generation, InstanceType};
use program::{Bench, Linked, program};
use rstest::rstest;
use rustix::io::Errno;
use testkit_support::within;

/// What the program says of a machine of this type, from the catalog and docs/reference/neuron.md §4.2.
fn facts(model: &InstanceType) -> String {
    let (architecture, versions, map) = match model.generation {
        Generation::Inf1 => (1, "2 to 7", None),
        Generation::Inf2 | Generation::Trn1 => (2, "5 to 7", None),
        Generation::Trn2 => (3, "10 to 11", Some("4 5 6 7 2 3 0 1, neuron15 6 7 4 5 0 1 2 3")),
        Generation::Trn3 => (4, "10 to 11", Some("4 5 6 7 2 3 0 1, neuron15 6 7 4 5 0 1 2 3")),
    };
    let routing_ids = match (model.generation, model.devices) {
        (Generation::Trn1, 16) => vec![0, 2, 6, 4, 1, 3, 7, 5, 9, 11, 15, 13, 8, 10, 14, 12],
        (Generation::Trn2, 16) => vec![0, 8, 9, 1, 2, 10, 11, 3, 6, 14, 15, 7, 4, 12, 13, 5],
        (_, devices) => (0..devices).collect(),
    };
    let (pod, modes, control) = match (model.generation, model.name.as_str()) {
        (Generation::Trn2, "trn2u.48xlarge") => (1, "0x10", 4),
        (Generation::Trn2, _) => (0, "0", 0),
        (Generation::Trn3, _) => (2, "0x10", 4),
        _ => (0, "0", 4),
    };
    let mut lines = Vec::new();
    for (device, place) in places(&model.name, model.devices).iter().enumerate() {
        let links: String = model.driver_links[device].iter().map(|id| format!(" {id}")).collect();
        lines.push(format!("neuron{device} arch {architecture} revision 0 links{links}"));
        // Sizes and addresses are made up; Inf1 alone has a second one.
        let first = 0xffff_c900_0000_0000_u64 + 0x800_0000 * u64::try_from(device).unwrap();
        lines.push(format!("neuron{device} bar 0: 0x4000000 bytes at {first:#x}"));
        let second = first + 0x400_0000;
        lines.push(match model.generation {
            Generation::Inf1 => format!("neuron{device} bar 1: 0x4000000 bytes at {second:#x}"),
            _ => format!("neuron{device} bar 1: 0 bytes at 0"),
        });
        lines.push(format!("neuron{device} bdf {}", &place.address.to_string()["0000:".len()..]));
        lines.push(format!("neuron{device} bdf_ext {}", place.address));
        lines.push(format!("neuron{device} host id {device}"));
    }
    lines.push(format!("arch {architecture} revision 0"));
    lines.push(format!("driver arch {architecture} version 0 size 24 features 0xff"));
    lines.push(format!("compatible {versions}"));
    let ids: String = routing_ids.iter().map(|id| format!(" {id}")).collect();
    lines.push(format!("routing ids{ids}"));
    lines.push(
        map.map_or_else(|| "core_map: ENOTSUPP".to_owned(), |map| format!("cores of 128: neuron0 {map}")),
    );
    lines.push(format!("pod type {pod} nodes 0"));
    lines.push(format!("pod state 4 type {pod} node -1"));
    lines.push(format!("pod mode 0 of {modes}"));
    lines.push(format!("pod control state {control}"));
    lines.push(format!("pod control 2 state {control}"));
    lines.join("\n") + "\n"
}

#[rstest]
#[case(Linked::Dynamically)]
#[case(Linked::Statically)]
fn every_type_answers_its_facts(#[case] linked: Linked) {
    let Some(program) = program(linked) else { return };
    for model in Catalog::embedded().types() {
        let bench = Bench::new(&spec(&model.name));
        let told = bench.run(&program, &["facts", &model.devices.to_string()]);
        assert_eq!(told, facts(model), "{} {linked:?}", model.name);
        assert_eq!(bench.processes(), [], "{}", model.name);
    }
}

#[test]
fn what_is_told_as_values_is_what_the_ioctls_say() {
    for model in Catalog::embedded().types() {
        let machine = Blueprint::of(&spec(&model.name), Catalog::embedded()).unwrap();
        let told = facts(model);
        for device in 0..model.devices {
            let found = discover(&machine, device, &[]).unwrap();
            let links: String = found.links.iter().map(|id| format!(" {id}")).collect();
            for line in [
                format!("neuron{device} arch {} revision 0 links{links}", found.architecture),
                format!("neuron{device} bdf_ext {}", found.address),
                format!("neuron{device} host id {}", found.host_id),
            ] {
                assert!(told.lines().any(|told| told == line), "{}: {line}", model.name);
            }
        }
        assert_eq!(discover(&machine, model.devices, &[]), None, "{}", model.name);
    }
}

#[test]
fn a_sagemaker_machine_answers_as_the_type_that_it_is() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let told = Bench::new(&spec("ml.trn2u.48xlarge")).run(&program, &["facts", "16"]);
    assert_eq!(told, facts(Catalog::embedded().find("trn2u.48xlarge").unwrap()));
}

#[test]
fn what_the_driver_refuses_is_refused_with_its_own_error() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let told = Bench::new(&spec("trn2.48xlarge")).run(&program, &["refusals"]);
    let expected = "device_info: EINVAL
all_apps: EINVAL
bdf: EINVAL
host_device_id: EINVAL
nc_reset: EINVAL
nc_ready: EINVAL
driver_info_set: ENOTSUPP
unknown number: EINVAL
device_info of another size: EINVAL
driver_info too small: EINVAL
driver_info larger: answered
routing_ids of another size: EINVAL
pod_info that does not name its size: EINVAL
core_map of 129: EINVAL
bdf_ext of a device that is not there: EINVAL
printk without end: EBADMSG
printk of 513: EFAULT
basic_info to nowhere: 8 left over
bdf_ext from nowhere: EFAULT
";
    assert_eq!(told, expected);
}

#[test]
fn a_reserved_core_is_busy_for_others_until_its_process_ends() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.2xlarge"));
    let mut holder = bench.start(&program, &["reserve", "2", "0", "3"]);
    assert_eq!(holder.first_line(), "marked: 0 1");
    let [process]: [_; 1] = bench.processes().try_into().unwrap();
    assert_eq!((process.pid, process.cores, process.devices), (holder.id(), vec![0, 1], vec![]));
    assert!(process.command.ends_with(" reserve 2 0 3"), "{}", process.command);
    assert_eq!(bench.run(&program, &["reserve", "4", "0", "3"]), "mark: EBUSY\nlongest 2\n");
    assert_eq!(bench.run(&program, &["reserve", "2", "0", "3"]), "marked: 2 3\n");
    holder.finish();
    assert_eq!(bench.processes(), []);
    assert_eq!(bench.run(&program, &["reserve", "4", "0", "3"]), "marked: 0 1 2 3\n");
}

#[test]
fn cores_are_given_back_by_asking_and_by_closing() {
    let Some(program) = program(Linked::Statically) else { return };
    let told = Bench::new(&spec("trn1.2xlarge")).run(&program, &["give-back"]);
    let expected = "marked: 0 1
marked: 2 3
mark a third time: EBUSY
unmarked one
marked: 0
unmarked all
marked: 0 1 2 3
mark of no range: EINVAL
mark beyond: EINVAL
marked after a close: 0 1 2 3
";
    assert_eq!(told, expected);
}

#[test]
fn cores_count_from_the_first_device_that_a_container_sees() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn2.48xlarge"));
    let sees = [(0, 13), (1, 14)].into_iter().collect::<Visible>();
    let mut inside = bench.start_with(&program, &["reserve", "3", "0", "15"], sees.clone(), Watch::default());
    assert_eq!(inside.first_line(), "marked: 0 1 2");
    assert_eq!(bench.processes()[0].cores, [104, 105, 106]);
    inside.finish();
    let told = bench.start_with(&program, &["copies"], sees, Watch::default()).finish();
    assert!(told.starts_with("itself: 14\n"), "{told}");
}

#[rstest]
#[case(Linked::Dynamically)]
#[case(Linked::Statically)]
fn a_device_is_known_by_every_copy_of_its_descriptor(#[case] linked: Linked) {
    let Some(program) = program(linked) else { return };
    let told = Bench::new(&spec("trn1.32xlarge")).run(&program, &["copies"]);
    let expected = "itself: 1
copied: 1
in a child: 1
driver_info_set in a child: EACCES
driver_info_set by who opened it: ENOTSUPP
in another program: 1
over a socket: 1
through /proc: 1
opened O_RDWR
another file: ENOTTY
";
    assert_eq!(told, expected);
}

#[test]
fn every_way_to_write_the_path_leads_to_the_device() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let told = Bench::new(&spec("trn1.32xlarge")).run(&program, &["paths"]);
    let (first, last) = told.split_at(told.find("neuron01").unwrap());
    assert!(first.lines().all(|line| line.ends_with(": 1")), "{told}");
    assert!(first.lines().count() >= 6, "{told}");
    assert_eq!(last, "neuron01: ENOENT\nneuron63: ENOENT\nexclusive: EEXIST\nelsewhere: ENOENT\n");
}

#[rstest]
#[case(Linked::Dynamically)]
#[case(Linked::Statically)]
fn a_node_looks_like_the_drivers_where_asked_for(#[case] linked: Linked) {
    let Some(program) = program(linked) else { return };
    let bench = Bench::new(&spec("trn1.32xlarge"));
    let watch = Watch { node_types: true, ..Watch::default() };
    let told = bench.start_with(&program, &["types"], Visible::all(16), watch).finish();
    let expected = "stat: character device 666 120:1
lstat: character device 666 120:1
fstat: character device 666 120:1
statx: character device 666 120:1
statx of a descriptor: character device 666 120:1
one file
size 0, links 1, owner 0
creat is answered
/proc is a folder
";
    assert_eq!(told, expected);
}

#[test]
fn an_opened_device_is_one_also_where_only_open_files_are_watched() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let told = Bench::new(&spec("trn1.32xlarge")).run(&program, &["types"]);
    for line in
        ["fstat: character device 666 120:1", "statx of a descriptor: character device 666 120:1", "one file"]
    {
        assert!(told.lines().any(|told| told == line), "{told}");
    }
}

#[test]
fn the_seventeenth_process_finds_the_device_busy() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("inf2.xlarge"));
    let mut holders: Vec<_> = (0..16).map(|_| bench.start(&program, &["hold"])).collect();
    let lines: Vec<String> = holders.iter_mut().map(program::Running::first_line).collect();
    assert!(lines.iter().all(|line| line.ends_with("own 1")), "{lines:?}");
    assert!(lines.iter().any(|line| line == "open by 16, own 1"), "{lines:?}");
    let told = bench.processes();
    assert_eq!(told.len(), 16);
    assert!(told.iter().all(|process| process.devices == [0]), "{told:?}");
    assert_eq!(bench.run(&program, &["hold"]), "neuron0 open: EBUSY\n");
    let free = bench.run(&program, &["refusals"]);
    assert!(free.starts_with("device_info: EINVAL\n"), "free access works while the device is busy: {free}");
    holders.pop().unwrap().finish();
    assert_eq!(bench.run(&program, &["hold"]), "open by 16, own 1\n");
    for holder in holders {
        holder.finish();
    }
    assert_eq!(bench.processes(), []);
}

#[test]
fn a_lost_device_and_an_unloaded_driver_have_no_answer() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.2xlarge"));
    let lost = bench.strike(Fault::DeviceLost { device: 0 });
    assert_eq!(bench.run(&program, &["hold"]), "neuron0 open: ENOENT\n");
    // As in a container, whose nodes stay.
    std::fs::write(bench.machine.root().join("dev/neuron0"), "").unwrap();
    assert_eq!(bench.run(&program, &["hold"]), "neuron0 open: ENXIO\n");
    std::fs::remove_file(bench.machine.root().join("dev/neuron0")).unwrap();
    bench.machine.lift(lost).unwrap();
    assert_eq!(bench.run(&program, &["hold"]), "open by 1, own 1\n");
    bench.strike(Fault::DriverUnloaded {});
    assert_eq!(bench.run(&program, &["hold"]), "neuron0 open: ENOENT\n");
}

#[tokio::test]
async fn opening_for_use_waits_for_a_reset_and_free_access_does_not() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.2xlarge"));
    let reset = bench.strike(Fault::Reset { device: 0 });
    let mut waiting = bench.start(&program, &["hold"]);
    assert!(bench.run(&program, &["reserve", "1", "0", "1"]).starts_with("marked: 0"));
    assert_eq!(bench.processes(), []);
    bench.machine.lift(reset).unwrap();
    let line = tokio::task::spawn_blocking(move || (waiting.first_line(), waiting));
    let (line, waiting) = within("the open to end", line).await.unwrap();
    assert_eq!(line, "open by 1, own 1");
    waiting.finish();
}

#[test]
fn a_core_that_a_fault_holds_is_busy_and_the_drivers_search_skips_what_follows() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.32xlarge"));
    bench.strike(Fault::CoreHeld { core: 1, pid: 4711 });
    assert_eq!(bench.run(&program, &["reserve", "2", "0", "3"]), "mark: EBUSY\nlongest 1\n");
    assert_eq!(bench.run(&program, &["reserve", "2", "0", "4"]), "marked: 3 4\n");
    assert_eq!(bench.run(&program, &["reserve", "2", "2", "4"]), "marked: 2 3\n");
}

#[rstest]
#[case::one(0, "0", "0")]
#[case::some(0, "2", "3")]
#[case::of_which_one_is_held(0, "0", "1")]
#[case::of_another_device(1, "0", "1")]
#[case::beyond_the_driver(0, "511", "512")]
#[case::that_wrap_around(1, "4294967294", "4294967295")]
fn reservations_as_values_end_as_the_ioctls_do(#[case] device: u8, #[case] first: &str, #[case] last: &str) {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.32xlarge"));
    let held = Fault::CoreHeld { core: 1, pid: 4711 };
    bench.strike(held.clone());
    let cores = first.parse::<u32>().unwrap()..=last.parse().unwrap();
    let count = (cores.end() - cores.start() + 1).to_string();
    let words = ["reserve", &count, first, last];
    let visible: Visible = [(0, device)].into_iter().collect();
    let told = bench.start_with(&program, &words, visible, Watch::default()).finish();
    let machine = Machine::builder("trn1.32xlarge").blueprint().unwrap();
    let as_value = match Reserved::of(&machine).reserve("me", device, cores, &[held]) {
        Ok(()) => "marked:".to_owned(),
        Err(error) => format!("mark: {}", if error == Errno::BUSY { "EBUSY" } else { "EINVAL" }),
    };
    assert!(told.starts_with(&as_value), "{told} is not {as_value}");
}

#[test]
fn what_the_runtime_prints_stands_in_the_kernel_log() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let bench = Bench::new(&spec("trn1.2xlarge"));
    let told = bench.run(&program, &["print-and-reset"]);
    assert_eq!(told, "printed\nrequest is the process\nreset 0\n");
    let log = read(bench.machine.root(), "dev/kmsg");
    assert!(log.starts_with("3,1,") && log.ends_with(",-;2026 NEURON_HW_ERR=DMA_ERROR\n"), "{log}");
}

#[test]
fn a_connection_to_the_metadata_service_goes_where_the_fake_one_is() {
    let Some(program) = program(Linked::Dynamically) else { return };
    let service = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let SocketAddr::V4(address) = service.local_addr().unwrap() else { panic!("IPv4 was asked for") };
    let mut bench = Bench::new(&spec("trn1.2xlarge"));
    bench.supervisor = bench.supervisor.with_metadata_service(address);
    let serving =
        std::thread::spawn(move || service.accept().unwrap().0.write_all(b"trn1.2xlarge\n").unwrap());
    let watch = Watch { metadata_service: true, ..Watch::default() };
    let told = bench.start_with(&program, &["metadata"], Visible::all(1), watch).finish();
    assert_eq!(told, "trn1.2xlarge\n");
    serving.join().unwrap();
}
