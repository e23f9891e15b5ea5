//! Plans that are kept in `plans/`: each once showed something that must not be. One whose violation is known must still show it,
//! so that whoever mends it finds the plan failing here and takes it off the list; nothing else may be wrong in any.

#![allow(clippy::unwrap_used, reason = "a failing test should say where")]
#![allow(clippy::disallowed_methods, reason = "a test reads the sources")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use neuron_e2e_simulation::{known, run_plan};
use simulated_cluster::RunOptions;
use simulated_cluster::plan::Plan;

#[test]
fn kept_plans_show_what_is_known_and_nothing_else() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("plans");
    let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    assert!(files.len() >= 10, "plans are missing, or were not found: {files:?}");
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
        let shown: BTreeSet<String> = summary.violations.0.into_keys().collect();
        assert!(
            kept_for.is_subset(&shown),
            "{name} shows {shown:?} and no longer {kept_for:?}: take it off known.json"
        );
    }
}
