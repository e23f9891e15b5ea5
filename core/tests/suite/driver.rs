//! The lines of the driver and what each shows.

use std::collections::BTreeSet;

use neuron_core::catalog::Generation;
use neuron_core::driver::{Drivers, HealthFile, Platform};
use rstest::rstest;

#[test]
fn every_generation_has_a_line_and_a_line_shows_no_file_twice() {
    let drivers = Drivers::embedded();
    for generation in Generation::ALL {
        assert!(drivers.newest(generation).is_some(), "{generation:?}");
    }
    for driver in drivers.all() {
        assert_eq!(drivers.named(&driver.line), Some(driver));
        for generation in &driver.generations {
            let paths: Vec<&str> =
                drivers.device_files(&driver.version, *generation).map(|file| file.path.as_str()).collect();
            let different: BTreeSet<&str> = paths.iter().copied().collect();
            assert_eq!(paths.len(), different.len(), "{} {generation:?}", driver.line);
            assert!(paths.contains(&"core_count"), "{} {generation:?}", driver.line);
        }
    }
}

#[rstest]
#[case::inf1_shows_only_its_reset("2.21.37.0", Generation::Inf1, &["reset"])]
#[case::trn2_before_components("2.24.7.0", Generation::Trn2, &["reset", "sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected"])]
#[case::trn2("2.30.2.0", Generation::Trn2, &["reset", "sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "unhealthy_components"])]
#[case::trn1_never("2.30.2.0", Generation::Trn1, &["reset", "sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected"])]
#[case::older_than_all("2.12.14.0", Generation::Inf1, &["reset"])]
#[case::newer_than_all("3.1.0.0\n", Generation::Inf1, &["reset"])]
#[case::no_version_counts_as_the_newest("", Generation::Trn3, &["reset", "sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "unhealthy_components"])]
fn health_is_told_by(#[case] version: &str, #[case] generation: Generation, #[case] names: &[&str]) {
    let files = Drivers::embedded().device_files(version, generation);
    let told: Vec<&str> = files.filter(|file| file.health.is_some()).map(|file| file.name()).collect();
    assert_eq!(told, names);
}

#[rstest]
#[case("2.24.7.0", 0o400)]
#[case("2.28.0.0", 0o444)]
fn core_count_can_be_read_by_everybody_from_2_28_on(#[case] version: &str, #[case] mode: u32) {
    let mut files = Drivers::embedded().device_files(version, Generation::Trn1);
    assert_eq!(files.find(|file| file.path == "core_count").map(|file| file.mode), Some(mode));
}

#[test]
fn the_newest_line_by_what_is_known_is_not_the_reorganised_one() {
    let drivers = Drivers::embedded();
    assert_eq!(drivers.newest(Generation::Trn2).unwrap().line, "2.30");
    assert_eq!(drivers.newest(Generation::Inf1).unwrap().line, "2.21");
    assert!(!drivers.named("2.31-unknown").unwrap().paths_known);
    assert_eq!(
        drivers.all().iter().map(|driver| driver.line.as_str()).collect::<Vec<_>>(),
        ["2.21", "2.24", "2.28", "2.29", "2.30", "2.31-unknown"]
    );
    let components = drivers.device_files("2.31.0.0", Generation::Trn2);
    assert_eq!(components.filter(|file| file.health == Some(HealthFile::Components)).count(), 1);
}

#[rstest]
#[case::a_file("mem_ecc_uncorrected", true)]
#[case::a_component("link_efa", true)]
#[case::a_file_without_health("core_count", false)]
#[case::a_mistake("link_efs", false)]
fn names_of_health_are_known(#[case] name: &str, #[case] is_known: bool) {
    assert_eq!(Drivers::embedded().tells_health_as(name), is_known);
}

#[test]
fn counters_are_no_files_that_the_plugin_expects() {
    let drivers = Drivers::embedded();
    let counters = drivers.counters();
    for driver in drivers.all() {
        for generation in &driver.generations {
            let expected: BTreeSet<&str> =
                drivers.device_files(&driver.version, *generation).map(|file| file.path.as_str()).collect();
            let lists = [&counters.kernel_files, &counters.device_files, &counters.core_files];
            for file in lists
                .into_iter()
                .flat_map(|files| drivers.shown(files, &driver.version, *generation, Platform::Standard))
            {
                assert!(!expected.contains(file.path.as_str()), "{}: {}", driver.line, file.path);
                assert!(file.health.is_none() && file.at_rest.is_some(), "{}", file.path);
                assert!(!file.path.contains(['{', '}', ',']), "{}", file.path);
            }
        }
    }
}

#[rstest]
#[case("trn2.48xlarge", Platform::Standard)]
#[case("inf1.xlarge", Platform::Standard)]
#[case("trn2u.48xlarge", Platform::Ultraserver)]
#[case("trn3.48xlarge", Platform::Pds)]
fn the_platform_goes_by_the_types_name(#[case] instance_type: &str, #[case] platform: Platform) {
    assert_eq!(Drivers::embedded().platform(instance_type), platform);
}

#[rstest]
#[case("2.12.14.0", Some("2.21"))]
#[case("2.24.7.0", Some("2.24"))]
#[case("2.26.5.0\n", Some("2.24"))]
#[case("2.30.2.0", Some("2.30"))]
#[case("3.1", Some("2.31-unknown"))]
#[case("", None)]
fn a_version_is_of_the_line_that_is_not_newer(#[case] version: &str, #[case] line: Option<&str>) {
    assert_eq!(Drivers::embedded().of_version(version).map(|driver| driver.line.as_str()), line);
}
