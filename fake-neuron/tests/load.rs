//! Load profiles: their numbers, and the files that show them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::time::{Duration, Instant};

use common::{modes, place, sysfs};
use fake_neuron::Machine;
use fake_neuron::fault::{Fault, FaultSpec, Stop};
use fake_neuron::load::{CoreUsage, DeviceUsage, Load, Profile, core_memory};
use neuron_core::catalog::Generation;
use neuron_core::driver::Drivers;
use rstest::rstest;

const GIB: u64 = 1 << 30;

fn core(profile: Profile, second: u64) -> CoreUsage {
    CoreUsage::of(profile, second, 0, 0, 12 * GIB)
}

#[test]
fn counters_never_go_back_and_memory_never_passes_its_peak_or_its_size() {
    for profile in Profile::ALL {
        let mut last = CoreUsage::default();
        for second in 0..400 {
            let usage = core(profile, second);
            for (now, before) in [
                (usage.completed, last.completed),
                (usage.failed, last.failed),
                (usage.flops, last.flops),
                (usage.busy_microseconds, last.busy_microseconds),
                (usage.models_loaded, last.models_loaded),
                (usage.highest_memory.total(), last.highest_memory.total()),
            ] {
                assert!(now >= before, "{profile} at {second}");
            }
            // What it did in this second is what it says of its use in it.
            let worked = usage.busy_microseconds - last.busy_microseconds;
            assert_eq!(
                worked,
                if second == 0 { 0 } else { last.busy_percent * 10_000 },
                "{profile} at {second}"
            );
            assert!(usage.memory.total() <= usage.highest_memory.total());
            assert!(usage.highest_memory.total() <= 12 * GIB);
            last = usage;
        }
    }
}

#[rstest]
#[case(Profile::Idle, 0, 0, 0)]
#[case(Profile::Training, 80, 98, 3970)]
#[case(Profile::Leak, 50, 68, 1570)]
#[case(Profile::Spikes, 80, 96, 700)]
fn a_profile_is_told_by_its_numbers(
    #[case] profile: Profile,
    #[case] least: u64,
    #[case] most: u64,
    #[case] completed: u64,
) {
    let busy: Vec<u64> =
        (0..400).map(|second| core(profile, second).busy_percent).filter(|busy| *busy > 0).collect();
    assert_eq!(busy.iter().min().copied().unwrap_or_default(), least);
    assert_eq!(busy.iter().max().copied().unwrap_or_default(), most);
    assert_eq!(core(profile, 400).completed, completed);
}

#[test]
fn a_leak_fills_the_memory_and_then_fails() {
    let (before, full) = (core(Profile::Leak, 159), core(Profile::Leak, 200));
    assert_eq!((before.failed, before.busy_percent > 0), (0, true));
    assert!(full.failed > 0 && full.busy_percent == 0);
    assert!(full.memory.total() > 12 * GIB * 99 / 100);
}

#[test]
fn a_load_of_a_year_is_asked_for_at_once() {
    let start = Instant::now();
    let year = core(Profile::Training, 365 * 24 * 3600);
    assert_eq!(year.completed, (365 * 24 * 3600 - 3) * 10);
    assert!(start.elapsed() < Duration::from_secs(1));
}

#[test]
fn cores_of_one_machine_are_not_in_step() {
    let busy: Vec<u64> =
        (0..8).map(|core| CoreUsage::of(Profile::Training, 20, 1, core, GIB).busy_percent).collect();
    assert!(busy.iter().any(|share| *share != busy[0]), "{busy:?}");
}

#[rstest]
#[case(Generation::Inf1, 2)]
#[case(Generation::Trn1, 16)]
#[case(Generation::Trn2, 12)]
#[case(Generation::Trn3, 18)]
fn a_core_has_its_part_of_the_devices_memory(#[case] generation: Generation, #[case] gibibytes: u64) {
    assert_eq!(core_memory(generation), gibibytes * GIB);
}

#[test]
fn the_drivers_files_show_the_same_numbers() {
    let (_folder, root) = place();
    let machine = Machine::builder("trn2.48xlarge").counters(true).up(&root).unwrap();
    let mut load = Load::new(&machine, Profile::Training);
    let files = modes(&root).len();
    assert!(load.write(90).unwrap() > 1000);
    assert_eq!(modes(&root).len(), files, "no file is added or lost");
    let usage = CoreUsage::of(Profile::Training, 90, 15, 7, core_memory(Generation::Trn2));
    let shown = |path: &str| sysfs(&root, 15, &format!("neuron_core7/stats/{path}"));
    assert_eq!(shown("status/success/total"), format!("{}\n", usage.completed));
    assert_eq!(shown("other_info/flop_count/total"), format!("{}\n", usage.flops));
    assert_eq!(shown("memory_usage/device_mem/present"), format!("{}\n", usage.memory.total()));
    assert_eq!(shown("memory_usage/device_mem/tensors/peak"), format!("{}\n", usage.highest_memory.tensors));
    let device = DeviceUsage::of(Profile::Training, 90, 15, 8);
    let [least, most, mean] = device.power.unwrap();
    let percent = |hundredths: u64| format!("{}.{:02}", hundredths / 100, hundredths % 100);
    for name in ["utilization", "utilization_raw"] {
        let power = sysfs(&root, 15, &format!("stats/power/{name}"));
        assert!(power.starts_with("POWER_STATUS_VALID,"), "{name}: {power}");
        let numbers = format!(",{},{},{}\n", percent(least), percent(most), percent(mean));
        assert!(power.ends_with(&numbers), "{name}: {power}");
    }
    assert_eq!(load.write(90).unwrap(), 0, "what is the same is not written again");
}

/// Older drivers have one of the files of power, newer ones both.
#[test]
fn every_file_of_power_moves_whatever_the_driver() {
    for driver in Drivers::embedded().all().iter().filter(|driver| driver.line != "2.21") {
        let (_folder, root) = place();
        let machine = Machine::builder("inf2.xlarge").driver(&driver.line).counters(true).up(&root).unwrap();
        Load::new(&machine, Profile::Training).write(90).unwrap();
        let files = modes(&root);
        let power: Vec<_> = files.iter().filter(|(path, _)| path.contains("stats/power/")).collect();
        assert!(!power.is_empty(), "{}", driver.line);
        assert!(
            power.iter().all(|(_, text)| text.contains("POWER_STATUS_VALID,")),
            "{}: {power:?}",
            driver.line
        );
    }
}

#[test]
fn a_load_leaves_alone_what_a_fault_has_taken() {
    let (_folder, root) = place();
    let machine = Machine::builder("trn1.32xlarge").counters(true).up(&root).unwrap();
    let whole = modes(&root);
    machine.strike(&FaultSpec::now(Fault::DeviceLost { device: 1 })).unwrap();
    machine.strike(&FaultSpec::now(Fault::HungRead { path: None, device: Some(2) })).unwrap();
    let mut load = Load::new(&machine, Profile::Training);
    load.write(10).unwrap();
    assert!(!root.join("sys/devices/virtual/neuron_device/neuron1").exists());
    machine.lift_all().unwrap();
    assert!(modes(&root).keys().eq(whole.keys()));
    assert_eq!(sysfs(&root, 1, "neuron_core0/stats/status/success/total"), "0\n");
    load.write(11).unwrap();
    assert_eq!(sysfs(&root, 1, "neuron_core0/stats/status/success/total"), "80\n");
}

#[test]
fn a_load_runs_until_it_is_stopped() {
    let (_folder, root) = place();
    let machine = Machine::builder("trn1.2xlarge").counters(true).up(&root).unwrap();
    let stop = Stop::default();
    let runner = {
        let (machine, stop) = (machine.clone(), stop.clone());
        std::thread::spawn(move || Load::new(&machine, Profile::Spikes).run(&stop))
    };
    let end = Instant::now() + Duration::from_secs(20);
    while sysfs(&root, 0, "neuron_core0/stats/status/success/total") == "0\n" {
        assert!(Instant::now() < end, "the counters do not move");
        Stop::default().wait_until(Instant::now() + Duration::from_millis(20));
    }
    stop.ask();
    runner.join().unwrap().unwrap();
}

#[test]
fn an_unknown_profile_is_refused() {
    assert_eq!(
        "busy".parse::<Profile>().unwrap_err().to_string(),
        "load profile busy is not known: give one of idle, training, leak, spikes"
    );
    for profile in Profile::ALL {
        assert_eq!(profile.name().parse(), Ok(profile));
    }
}
