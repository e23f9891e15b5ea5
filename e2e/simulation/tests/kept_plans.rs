//! Plans that are kept in `plans/`: each once showed something that must not be, or does with a planted bug. One whose violation is
//! known must still show it, so that whoever mends it finds the plan failing here and takes it off the list; nothing else may be wrong
//! in any.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]
#![allow(clippy::disallowed_methods, reason = "a test reads the sources")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use neuron_e2e_simulation::{known, reached, run_plan};
use simulated_cluster::RunOptions;
use simulated_cluster::plan::Plan;

/// What each has to reach: a plan is another run after some changes, and one that no longer comes where it once failed shows nothing.
const REACHES: [(&str, &str); 10] = [
    ("another-pod-named.json", "extender: pod refused at its bind"),
    ("asked-anew-amid-grace.json", "plugin: container runs on with what it had before"),
    ("believed-to-be-another-type.json", "extender: topology dropped"),
    ("checkpoint-lost.json", "plugin: waits for a process of a gone pod"),
    ("deleted-by-force.json", "plugin: pod that is gone was just given something"),
    ("edited-while-the-api-is-down.json", "extender: node watch disconnected"),
    ("ids-refused-as-held.json", "plugin: live read for the ledger"),
    ("leader-frozen-before-its-binding.json", "extender: lease over before a binding"),
    ("node-replaced-as-pods-come.json", "cluster: a refused pod was tried again after five minutes"),
    ("report-of-what-ended.json", "plugin: dead file removed"),
];

#[test]
fn kept_plans_show_what_is_known_and_nothing_else() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert_eq!(files.len(), REACHES.len(), "each plan has its line in REACHES: {files:?}");
    for file in files {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let plan = Plan::parse(&fs::read_to_string(&file).unwrap()).unwrap();
        let known = known().unwrap();
        let kept_for: BTreeSet<String> = known
            .iter()
            .filter(|known| known.plan.as_deref() == Some(&*name))
            .map(|known| known.signature.clone())
            .collect();
        let summary = run_plan(&plan, RunOptions { known, ..RunOptions::default() }).unwrap();
        assert_eq!(summary.unknown, Vec::<String>::new(), "{name}: {:#?}", summary.violations);
        assert!(summary.created > 0, "{name} creates no pod any more: {summary:#?}");
        let place = REACHES.iter().find(|(plan, _)| *plan == name);
        let (_, place) = place.unwrap_or_else(|| panic!("{name} has no line in REACHES"));
        let count = reached(std::slice::from_ref(&summary)).get(*place).copied();
        assert!(count > Some(0), "{name} does not reach {place:?} any more: {:?}", summary.branches);
        let shown: BTreeSet<String> = summary.violations.0.into_keys().collect();
        assert!(
            kept_for.is_subset(&shown),
            "{name} shows {shown:?} and no longer {kept_for:?}: take it off known.json"
        );
    }
}
