//! The catalog: every real type, aliases, override files and what is wrong with them.

use neuron_core::catalog::{Catalog, Generation, SetRule, Shape};
use rstest::rstest;
use serde_json::{Value, json};

const NAMES: [&str; 17] = [
    "inf1.xlarge",
    "inf1.2xlarge",
    "inf1.6xlarge",
    "inf1.24xlarge",
    "inf2.xlarge",
    "inf2.8xlarge",
    "inf2.24xlarge",
    "inf2.48xlarge",
    "trn1.2xlarge",
    "trn1.32xlarge",
    "trn1n.32xlarge",
    "trn2.3xlarge",
    "trn2.48xlarge",
    "trn2u.48xlarge",
    "trn2n.48xlarge",
    "trn3.48xlarge",
    "trn3e.24xlarge",
];

fn row(changes: Value) -> String {
    let mut row = json!({
        "instance_type": "inf9.xlarge", "generation": "inf2", "devices": 2, "cores_per_device": 2,
        "default_lnc": 1, "device_memory_bytes": 1, "topology": "line", "links": [[1], [0]],
        "driver_links": [[1], [0]], "device_counts": [1, 2], "device_sets": "run", "counts_documented": false,
        "vcpus": 4, "host_memory_gib": 8, "efa": 0, "confidence": "low", "source": []
    });
    for (key, value) in changes.as_object().unwrap() {
        row[key] = value.clone();
    }
    json!({ "types": [row] }).to_string()
}

#[test]
fn every_type_is_embedded_with_its_grade_of_evidence() {
    let catalog = Catalog::embedded();
    let names: Vec<&str> = catalog.types().iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names, NAMES);
    for row in catalog.types() {
        assert!(["high", "medium", "low"].contains(&row.confidence.as_str()), "{}", row.name);
        assert!(!row.source.is_empty(), "{}", row.name);
    }
    let trn2 = catalog.find("trn2.48xlarge").unwrap();
    assert_eq!(
        (trn2.generation, trn2.shape, trn2.device_sets),
        (Generation::Trn2, Shape::Torus, SetRule::Rows)
    );
    assert_eq!((trn2.devices, trn2.cores_per_device, trn2.default_lnc), (16, 8, 2));
}

#[test]
fn the_embedded_text_reads_without_errors() {
    // Catalog::embedded() falls back to an empty catalog: this is what keeps that from happening.
    Catalog::from_json(include_str!("../../data/instance-types.json")).unwrap();
}

#[rstest]
#[case("trn1.32xlarge", Some("trn1.32xlarge"), true)]
#[case("ml.trn1.32xlarge", Some("trn1.32xlarge"), true)]
#[case("trn2p.48xlarge", Some("trn2.48xlarge"), true)]
#[case("ml.trn2p.48xlarge", Some("trn2.48xlarge"), true)]
#[case("trn3en.24xlarge", Some("trn3e.24xlarge"), true)]
#[case("inf2e.32xlarge", None, true)]
#[case("ml.inf2e.32xlarge", None, true)]
#[case("m5.large", None, false)]
#[case("", None, false)]
#[case("ml.ml.trn1.32xlarge", None, false)]
fn names_resolve(#[case] name: &str, #[case] found: Option<&str>, #[case] known: bool) {
    let catalog = Catalog::embedded();
    assert_eq!(catalog.find(name).map(|row| row.name.as_str()), found);
    assert_eq!(catalog.is_known_name(name), known);
}

#[test]
fn an_override_file_replaces_rows_by_name_and_adds_others() {
    let added = Catalog::from_json(&row(json!({}))).unwrap();
    assert_eq!(added.types().len(), NAMES.len() + 1);
    assert_eq!(added.find("ml.inf9.xlarge").unwrap().devices, 2);

    let replaced = Catalog::from_json(&row(json!({ "instance_type": "inf2.24xlarge" }))).unwrap();
    assert_eq!(replaced.types().len(), NAMES.len());
    assert_eq!(replaced.find("inf2.24xlarge").unwrap().devices, 2);

    let no_longer_a_mere_name =
        Catalog::from_json(&row(json!({ "instance_type": "trn2p.48xlarge" }))).unwrap();
    assert_eq!(no_longer_a_mere_name.find("trn2p.48xlarge").unwrap().name, "trn2p.48xlarge");

    let alias = r#"{"names":[{"instance_type":"inf2e.32xlarge","generation":"inf2","like":"inf2.48xlarge","note":""}]}"#;
    assert_eq!(Catalog::from_json(alias).unwrap().find("inf2e.32xlarge").unwrap().name, "inf2.48xlarge");
}

#[rstest]
#[case(json!({"devices": 0, "links": [], "driver_links": []}), "devices is 0; it must be 1 to 64")]
#[case(json!({"devices": 65}), "devices is 65; it must be 1 to 64")]
#[case(json!({"cores_per_device": 65}), "devices times cores_per_device is 130; it must be 1 to 128")]
#[case(json!({"cores_per_device": 0}), "devices times cores_per_device is 0; it must be 1 to 128")]
#[case(json!({"default_lnc": 2}), "default_lnc is 2; it must be 1, or 2 on Trainium2 and Trainium3")]
#[case(json!({"default_lnc": 0}), "default_lnc is 0; it must be 1, or 2 on Trainium2 and Trainium3")]
#[case(json!({"topology": "single"}), "topology single and device_sets one are for one device, not for 2")]
#[case(json!({"links": [[1]]}), "links has 1 entries for 2 devices")]
#[case(json!({"links": [[1], []]}), "links of device 0 names device 1, but not the other way round")]
#[case(json!({"links": [[1], [0, 2]]}), "links of device 1 names device 2, which does not exist")]
#[case(json!({"links": [[0, 1], [0]]}), "links of device 0 names device 0 twice or is the device itself")]
#[case(json!({"driver_links": [[1, 1], [0]]}), "driver_links of device 0 names device 1 twice or is the device itself")]
#[case(json!({"device_counts": [1, 3]}), "device_counts is [1, 3]; it must ascend from 1 to 2")]
#[case(json!({"device_counts": []}), "device_counts is []; it must ascend from 1 to 2")]
fn a_wrong_row_is_named_with_what_is_wrong(#[case] changes: Value, #[case] problem: &str) {
    let error = Catalog::from_json(&row(changes)).unwrap_err();
    assert_eq!(error.to_string(), format!("instance type inf9.xlarge in the catalog: {problem}"));
}

#[test]
fn a_wrong_file_is_an_error() {
    let message = |text: &str| Catalog::from_json(text).unwrap_err().to_string();
    assert_eq!(
        message("{\"typos\":[]}"),
        "the instance type catalog cannot be read: unknown field `typos`, expected one of `_about`, `types`, `names` \
         at line 1 column 8; compare with core/data/instance-types.json"
    );
    let dangling = r#"{"names":[{"instance_type":"x1.large","like":"x2.large"}]}"#;
    assert_eq!(
        message(dangling),
        "instance type x1.large in the catalog: is like x2.large, which is not in the catalog"
    );
    let twice = r#"{"names":[{"instance_type":"x","like":null},{"instance_type":"x","like":null}]}"#;
    assert_eq!(message(twice), "instance type x in the catalog: stands twice; keep one of them");
}
