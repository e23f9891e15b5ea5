//! The vocabulary of faults as JSON, their times and their chances.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

use std::time::Duration;

use fake_neuron::fault::{
    Due, Fault, FaultSpec, Schedule, duration_text, parse_duration, parse_faults, read_faults,
};
use rstest::rstest;
use serde_json::{Value, json};

#[rstest]
#[case(json!({"fault": "device-lost", "device": 3}))]
#[case(json!({"fault": "ecc", "device": 3, "counter": "mem_ecc_uncorrected", "count": 2}))]
#[case(json!({"fault": "unhealthy", "device": 3, "components": ["hbm", "link_host"]}))]
#[case(json!({"fault": "health-status", "device": 3, "file": "hw_error_event", "value": 2}))]
#[case(json!({"fault": "hung-read", "path": "sys/module/neuron/version"}))]
#[case(json!({"fault": "hung-read", "device": 3}))]
#[case(json!({"fault": "reset", "device": 3}))]
#[case(json!({"fault": "driver-unloaded"}))]
#[case(json!({"fault": "link-down", "device": 3, "other": 7}))]
#[case(json!({"fault": "wrong-lnc", "lnc": 1}))]
#[case(json!({"fault": "core-held", "core": 100, "pid": 4711}))]
#[case(json!({"fault": "kernel-error", "device": 3, "kind": "DMA_ERROR"}))]
#[case(json!({"fault": "reset", "device": 3, "after": "1500ms", "for": "2m", "probability": 0.25, "seed": 7}))]
fn a_fault_is_read_and_written_in_the_same_words(#[case] written: Value) {
    let read = parse_faults(&json!([written]).to_string()).unwrap();
    assert_eq!(serde_json::to_value(&read[0]).unwrap(), written);
    assert!(Fault::NAMES.contains(&read[0].fault.name()));
    assert_eq!(written["fault"], read[0].fault.name());
}

#[rstest]
#[case(
    r#"[{"fault": "device-los", "device": 3}]"#,
    "unknown variant `device-los`, expected one of `device-lost`, `ecc`, `unhealthy`, `health-status`, `hung-read`, `reset`, `driver-unloaded`, `link-down`, `wrong-lnc`, `core-held`, `kernel-error`"
)]
#[case(r#"[{"fault": "device-lost"}]"#, "missing field `device`")]
#[case(
    r#"[{"fault": "device-lost", "device": 3, "untill": "3s"}]"#,
    "unknown field `untill`, expected `device`"
)]
#[case(r#"[{"fault": "driver-unloaded", "device": 3}]"#, "unknown field `device`, there are no fields")]
#[case(r#"[{"fault": "kernel-error", "device": 3, "kind": "FIRE"}]"#, "unknown variant `FIRE`")]
#[case(
    r#"[{"fault": "reset", "device": 3, "after": "soon"}]"#,
    "after: \"soon\" is no duration: write a whole number and ms, s, m or h, such as 5s"
)]
#[case(r#"[{"fault": "reset", "device": 3, "for": 5}]"#, "for: invalid type: integer `5`, expected a string")]
#[case(r#"{"fault": "reset", "device": 3}"#, "invalid type: map, expected a sequence")]
fn what_is_no_fault_is_refused(#[case] text: &str, #[case] message: &str) {
    let refused = parse_faults(text).unwrap_err();
    assert!(refused.to_string().starts_with(message), "{refused}");
    assert!(
        refused.to_string().ends_with(
            r#"; write faults as a JSON list like [{"fault": "device-lost", "device": 3, "after": "5s"}]"#
        ),
        "{refused}"
    );
    assert!(refused.is_misuse());
}

#[test]
fn a_chance_or_a_time_that_makes_no_sense_is_refused() {
    let refused = |text: &str| parse_faults(text).unwrap_err().to_string();
    assert_eq!(
        refused(r#"[{"fault": "reset", "device": 3, "probability": 1.5}]"#),
        "probability 1.5 is not valid: give 0 to 1, such as 0.25"
    );
    assert_eq!(
        refused(r#"[{"fault": "kernel-error", "device": 3, "kind": "DMA_ERROR", "for": "5s"}]"#),
        "kernel-error (device 3, DMA_ERROR) happens once and is over: leave `for` out"
    );
    assert_eq!(
        refused(r#"[{"fault": "reset", "device": 3, "for": "0s"}]"#),
        "reset (device 3) would be over as soon as it struck: give `for` a time such as 10s, or leave it out"
    );
}

#[test]
fn a_file_of_faults_is_named_in_what_is_wrong_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults.json");
    let missing = read_faults(&path).unwrap_err().to_string();
    assert_eq!(
        missing,
        format!(
            "file of faults {}: it cannot be read: No such file or directory (os error 2)",
            path.display()
        )
    );
    std::fs::write(&path, "[{}]").unwrap();
    let empty = read_faults(&path).unwrap_err().to_string();
    assert!(
        empty.starts_with(&format!("file of faults {}: missing field `fault`", path.display())),
        "{empty}"
    );
}

#[rstest]
#[case("0s", 0, "0ms")]
#[case("500ms", 500, "500ms")]
#[case("5s", 5_000, "5s")]
#[case("90s", 90_000, "90s")]
#[case("120s", 120_000, "2m")]
#[case("1h", 3_600_000, "1h")]
fn durations_are_whole_numbers_with_a_unit(
    #[case] text: &str,
    #[case] milliseconds: u64,
    #[case] again: &str,
) {
    let duration = parse_duration(text).unwrap();
    assert_eq!((duration, duration_text(duration).as_str()), (Duration::from_millis(milliseconds), again));
}

#[rstest]
#[case("")]
#[case("5")]
#[case("s")]
#[case("-5s")]
#[case("1.5s")]
#[case("5 s")]
#[case("5d")]
#[case("99999999999999999999s")]
#[case("9999999999999999999h")]
fn other_durations_are_refused(#[case] text: &str) {
    assert_eq!(
        parse_duration(text).unwrap_err(),
        format!("{text:?} is no duration: write a whole number and ms, s, m or h, such as 5s")
    );
}

fn reset(device: u8) -> FaultSpec {
    FaultSpec::now(Fault::Reset { device })
}

#[test]
fn a_schedule_is_in_the_order_of_time_and_ends_before_it_begins_again() {
    let seconds = Duration::from_secs;
    let schedule = Schedule::new(vec![
        FaultSpec { after: seconds(5), ..reset(0) },
        FaultSpec { lasts: Some(seconds(5)), ..reset(1) },
        reset(2),
        FaultSpec { after: seconds(1), lasts: Some(seconds(1)), ..reset(3) },
    ]);
    let due = [
        (0, Due::Strike(1)),
        (0, Due::Strike(2)),
        (1, Due::Strike(3)),
        (2, Due::Lift(3)),
        (5, Due::Lift(1)),
        (5, Due::Strike(0)),
    ];
    assert_eq!(schedule.due(), due.map(|(at, due)| (seconds(at), due)));
    assert_eq!(schedule.end(), seconds(5));
}

#[test]
fn a_seed_always_draws_the_same_and_many_draws_are_as_likely_as_said() {
    let with = |probability: f64, seed: u64, device: u8| {
        FaultSpec { probability: Some(probability), seed, ..reset(device) }.strikes()
    };
    let share = |probability: f64| {
        let draws = (0..100_u64).flat_map(|seed| (0..64).map(move |device| (seed, device)));
        draws.filter(|(seed, device)| with(probability, *seed, *device)).count()
    };
    assert_eq!((share(0.0), share(1.0)), (0, 6400));
    for (probability, around) in [(0.1, 640), (0.5, 3200), (0.9, 5760)] {
        assert!(share(probability).abs_diff(around) < 200, "{probability}: {}", share(probability));
        assert_eq!(share(probability), share(probability));
    }
    // These are promised to users of a seed: another compiler or version must draw them too.
    let drawn: Vec<bool> = (0..12).map(|device| with(0.5, 42, device)).collect();
    insta::assert_compact_json_snapshot!(drawn, @"[true, false, true, false, true, false, true, false, true, true, true, true]");
    let without = Schedule::new(vec![FaultSpec { probability: Some(0.0), ..reset(0) }, reset(1)]);
    assert_eq!(without.due(), [(Duration::ZERO, Due::Strike(1))]);
}
