//! The branches in which the plugin recovers from what rarely happens, or refuses. A simulation compares what it has reached
//! with this list.

/// Every name that the plugin calls [`runtime::reached`] with, sorted.
pub const BRANCHES: &[&str] = &[
    "plugin: LNC held",
    "plugin: LNC held, the configured one is not usable",
    "plugin: already connected",
    "plugin: another plugin is frozen",
    "plugin: another plugin let go",
    "plugin: answer forgotten by kubelet",
    "plugin: answer of nobody ended",
    "plugin: answer offered again",
    "plugin: answer written down by kubelet",
    "plugin: checkpoint not read",
    "plugin: checkpoint not read in time",
    "plugin: checkpoint of before believed over a record",
    "plugin: checkpoint waited for at the start",
    "plugin: container runs on with what it had before",
    "plugin: correction put off for a change of the machine",
    "plugin: dead file removed",
    "plugin: device file found by name",
    "plugin: device file hangs",
    "plugin: device health unknown",
    "plugin: device healthy again",
    "plugin: device in a reset",
    "plugin: device lost",
    "plugin: device names not written",
    "plugin: device names written again",
    "plugin: device unhealthy",
    "plugin: devices came late",
    "plugin: devices not found",
    "plugin: devices still coming",
    "plugin: driver gone",
    "plugin: end of another plugin noticed",
    "plugin: entry ignored",
    "plugin: event left out",
    "plugin: event not written",
    "plugin: folder not watched",
    "plugin: kubelet asked again",
    "plugin: kubelet asked whose question it is",
    "plugin: kubelet away",
    "plugin: kubelet refused to tell its pods",
    "plugin: kubelet restarted",
    "plugin: kubelet told its pods",
    "plugin: lease not renewed",
    "plugin: lease renewed after its end",
    "plugin: live read amid a relist",
    "plugin: live read for a preference",
    "plugin: live read for an allocation",
    "plugin: live read for the ledger",
    "plugin: lock file not seen",
    "plugin: lock file not usable",
    "plugin: lock file put back",
    "plugin: no sign of life",
    "plugin: node not read",
    "plugin: not allocatable",
    "plugin: numbers of the host where it is open who asks",
    "plugin: open files not read",
    "plugin: own server silent",
    "plugin: part ended early",
    "plugin: pod forgotten by kubelet",
    "plugin: pod of an entry never seen",
    "plugin: pod that is gone was just given something",
    "plugin: podresources away",
    "plugin: podresources not answered",
    "plugin: podresources refused",
    "plugin: pods not read",
    "plugin: process of a gone pod marked",
    "plugin: processes not read",
    "plugin: record changed meanwhile",
    "plugin: record corrected",
    "plugin: record not corrected",
    "plugin: refused, held",
    "plugin: refused, not allowed",
    "plugin: refused, not ready",
    "plugin: refused, still open",
    "plugin: refused, unhealthy",
    "plugin: refused, unknown id",
    "plugin: registration not answered",
    "plugin: registration refused",
    "plugin: relist",
    "plugin: replaced by another plugin",
    "plugin: report not written",
    "plugin: report written again",
    "plugin: resources moved apart",
    "plugin: runtime without device names",
    "plugin: serving again",
    "plugin: set chosen for a whole pod",
    "plugin: set not preferred, still open",
    "plugin: set preferred that is promised to another pod",
    "plugin: socket lost while registering",
    "plugin: socket not made",
    "plugin: socket not removed",
    "plugin: socket not seen",
    "plugin: socket vanished",
    "plugin: stream ended",
    "plugin: stream not opened",
    "plugin: timer of a device file late",
    "plugin: upkeep tried again",
    "plugin: waits for a process of a gone pod",
    "plugin: waits for the end of a holder",
    "plugin: watch disconnected",
];

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test reads the crate's own source")]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The names in the calls below a folder.
    fn called(folder: &Path, names: &mut BTreeSet<String>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                called(&path, names);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let source = fs::read_to_string(&path).unwrap();
                // Not written as one text, which this test would find.
                let calls = source.split(concat!("reached", "(\"")).skip(1);
                names.extend(calls.map(|rest| rest.split('"').next().unwrap().to_owned()));
            }
        }
    }

    #[test]
    fn the_list_names_every_branch_that_is_called_and_no_other() {
        let mut names = BTreeSet::new();
        called(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut names);
        assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), BRANCHES);
        assert!(names.iter().all(|name| name.starts_with("plugin: ")), "{names:?}");
    }
}
