//! The PCI addresses of every type: as documented, distinct, and the same each time.

use std::collections::BTreeSet;

use fake_neuron::pci::places;
use neuron_core::catalog::Catalog;
use rstest::rstest;

#[test]
fn every_type_of_the_catalog_has_an_address_of_its_own_for_each_device() {
    for model in Catalog::embedded().types() {
        let places = places(&model.name, model.devices);
        assert_eq!(places.len(), usize::from(model.devices), "{}", model.name);
        let distinct: BTreeSet<_> = places.iter().map(|place| place.address).collect();
        assert_eq!(distinct.len(), places.len(), "{}", model.name);
    }
}

#[rstest]
#[case("inf1.6xlarge", 4, &["0000:00:1c.0", "0000:00:1d.0", "0000:00:1e.0", "0000:00:1f.0"])]
#[case("trn1.2xlarge", 1, &["0000:00:1e.0"])]
#[case("ml.inf2.xlarge", 1, &["0000:00:1f.0"])]
#[case::not_in_the_catalog("inf9.huge", 2, &["0000:00:1e.0", "0000:00:1f.0"])]
fn addresses_are_the_documented_ones(#[case] name: &str, #[case] devices: u8, #[case] addresses: &[&str]) {
    let found: Vec<String> = places(name, devices).iter().map(|place| place.address.to_string()).collect();
    assert_eq!(found, addresses);
}

#[rstest]
#[case("trn1.2xlarge", 0, "0000:00:1e.0", None, "0-7")]
#[case("trn2.3xlarge", 0, "0000:33:00.0", Some(0), "0-11")]
#[case("trn1.32xlarge", 13, "0000:10:1b.0", Some(0), "0-31,64-95")]
#[case("trn2n.48xlarge", 3, "0000:cb:00.0", Some(1), "48-95,144-191")]
#[case("trn2.48xlarge", 5, "0000:58:00.0", Some(0), "0-47,96-143")]
#[case("inf2.48xlarge", 1, "0000:90:1e.0", Some(3), "72-95,168-191")]
fn a_device_sits_where_captures_show_it(
    #[case] name: &str,
    #[case] device: usize,
    #[case] address: &str,
    #[case] numa_node: Option<u8>,
    #[case] cpus: &str,
) {
    let devices = Catalog::embedded().find(name).unwrap().devices;
    let place = &places(name, devices)[device];
    assert_eq!(
        (place.address.to_string().as_str(), place.numa_node, place.cpus.as_str()),
        (address, numa_node, cpus)
    );
}

#[test]
fn a_type_with_more_devices_than_slots_still_has_distinct_addresses() {
    let places = places("inf9.huge", 64);
    let distinct: BTreeSet<_> = places.iter().map(|place| place.address).collect();
    assert_eq!(distinct.len(), 64);
}
