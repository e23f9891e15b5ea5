//! A machine's life: up, again, another one, faults, down; and what it refuses.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod common;

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::Path;

use common::{listing, place, read, spec, sysfs, up};
use fake_neuron::{Health, MARKER, Machine, MachineSpec};
use neuron_core::catalog::Catalog;
use rstest::rstest;

const UNHEALTHY: &str = "stats/hardware/health_status/unhealthy_components";

#[test]
fn up_then_down_leaves_nothing_for_every_type() {
    for model in Catalog::embedded().types() {
        let (folder, root) = place();
        up(&spec(&model.name), &root).unwrap().down().unwrap();
        assert_eq!(listing(folder.path()).len(), 0, "{}", model.name);
    }
}

#[test]
fn down_keeps_a_root_that_up_did_not_make_and_foreign_files() {
    let (_folder, root) = place();
    fs::create_dir(&root).unwrap();
    up(&spec("inf2.xlarge"), &root).unwrap();
    fs::write(root.join("opt-notes"), "mine").unwrap();
    fs::write(root.join("dev/null"), "mine").unwrap();
    Machine::down_at(&root).unwrap();
    let left: Vec<String> = listing(&root).into_keys().collect();
    assert_eq!(left, ["dev/null", "opt-notes"]);
}

#[test]
fn down_removes_the_folders_above_the_root_that_up_made_and_no_others() {
    let (folder, _) = place();
    let above = folder.path().canonicalize().unwrap();
    let mine = above.join("mine");
    fs::create_dir(&mine).unwrap();
    let root = mine.join("made/also/node");
    up(&spec("inf2.xlarge"), &root).unwrap();
    // Another type keeps what the first one knew.
    up(&spec("inf1.xlarge"), &root).unwrap().down().unwrap();
    assert_eq!(
        listing(&above).into_iter().collect::<Vec<_>>(),
        [("mine".to_owned(), "an empty folder".to_owned())]
    );

    up(&spec("inf2.xlarge"), &root).unwrap();
    fs::write(mine.join("made/notes"), "mine").unwrap();
    Machine::down_at(&root).unwrap();
    assert_eq!(listing(&above).into_keys().collect::<Vec<_>>(), ["mine/made/notes"]);
}

#[test]
fn up_again_changes_nothing_not_even_a_fault() {
    let (_folder, root) = place();
    let machine = up(&spec("trn2.48xlarge"), &root).unwrap();
    machine.set_health(3, &Health::unhealthy("hbm")).unwrap();
    machine.lose(5).unwrap();
    let before = listing(&root);
    up(&spec("trn2.48xlarge"), &root).unwrap();
    assert!(before == listing(&root));
}

#[test]
fn another_type_replaces_the_machine_and_nothing_of_the_old_one_stays() {
    let ((_folder, root), (_other, fresh)) = (place(), place());
    up(&MachineSpec { lnc: Some(1), ..spec("trn2.48xlarge") }, &root).unwrap();
    up(&spec("inf1.6xlarge"), &root).unwrap();
    up(&spec("inf1.6xlarge"), &fresh).unwrap();
    assert!(listing(&root) == listing(&fresh));
    Machine::down_at(&root).unwrap();
    assert!(!root.exists(), "the first up made it");
}

#[test]
fn an_interrupted_up_is_finished_by_the_next_one() {
    let ((_folder, root), (_other, fresh)) = (place(), place());
    up(&spec("inf2.xlarge"), &root).unwrap();
    up(&spec("inf2.xlarge"), &fresh).unwrap();
    let marker = read(&root, MARKER);
    fs::write(root.join(MARKER), marker.replace("\"complete\": true", "\"complete\": false")).unwrap();
    fs::remove_dir_all(root.join("dev")).unwrap();
    fs::create_dir(root.join(".fake-neuron.work-machine")).unwrap();
    let open = Machine::open(&root).unwrap_err().to_string();
    assert_eq!(
        open,
        format!("root {} holds no fake machine: make one with `fake-neuron up`", root.display())
    );
    up(&spec("inf2.xlarge"), &root).unwrap();
    assert_eq!(listing(&root), listing(&fresh));
}

#[test]
fn a_refused_up_leaves_the_old_machine_standing() {
    let (_folder, root) = place();
    up(&spec("inf2.xlarge"), &root).unwrap();
    let before = listing(&root);
    up(&MachineSpec { lnc: Some(2), ..spec("inf2.8xlarge") }, &root).unwrap_err();
    up(&spec("inf3.xlarge"), &root).unwrap_err();
    assert_eq!(listing(&root), before);
}

#[rstest]
#[case::near(
    "trn2.48xlrge",
    "instance type trn2.48xlrge is not known: did you mean one of trn2.48xlarge, trn2a.48xlarge, trn2n.48xlarge? `fake-neuron list --aliases` shows every name and takes types of your own with --catalog"
)]
#[case::nothing_near(
    "m5.large",
    "instance type m5.large is not known: `fake-neuron list --aliases` shows every name and takes types of your own with --catalog"
)]
#[case::no_shape(
    "inf2e.32xlarge",
    "instance type inf2e.32xlarge is known by name only: how many devices it has is not documented; choose a type from `fake-neuron list`"
)]
fn an_unknown_type_is_refused(#[case] instance_type: &str, #[case] message: &str) {
    let (_folder, root) = place();
    assert_eq!(up(&spec(instance_type), &root).unwrap_err().to_string(), message);
    assert!(!root.exists());
}

#[rstest]
#[case("trn2.48xlarge", 3, "instance type trn2.48xlarge cannot run at LNC 3: give 1 or 2")]
#[case("trn3e.24xlarge", 0, "instance type trn3e.24xlarge cannot run at LNC 0: give 1 or 2")]
#[case(
    "inf2.xlarge",
    2,
    "instance type inf2.xlarge cannot run at LNC 2: give 1 or leave it out, only Trn2 and Trn3 have LNC 2"
)]
fn an_impossible_lnc_is_refused(#[case] instance_type: &str, #[case] lnc: u8, #[case] message: &str) {
    let (_folder, root) = place();
    let asked = MachineSpec { lnc: Some(lnc), ..spec(instance_type) };
    assert_eq!(up(&asked, &root).unwrap_err().to_string(), message);
    assert!(!root.exists());
}

#[test]
fn an_instance_id_that_would_break_the_file_is_refused() {
    let (_folder, root) = place();
    let asked = MachineSpec { instance_id: Some("i-1\ni-2".to_owned()), ..spec("inf2.xlarge") };
    assert_eq!(
        up(&asked, &root).unwrap_err().to_string(),
        "instance id \"i-1\\ni-2\" is not valid: give 1 to 64 visible ASCII characters, such as i-0123456789abcdef0"
    );
}

#[rstest]
#[case("/")]
#[case("/tmp/..")]
fn the_hosts_own_root_is_refused(#[case] root: &str) {
    let message =
        format!("root {root} is this host's own root: give a folder of its own, such as /tmp/node1");
    assert_eq!(up(&spec("inf2.xlarge"), Path::new(root)).unwrap_err().to_string(), message);
    assert_eq!(Machine::down_at(Path::new(root)).unwrap_err().to_string(), message);
}

#[test]
fn roots_that_are_not_ours_are_refused() {
    let (folder, root) = place();
    let winding = root.join("../../elsewhere");
    assert_eq!(
        up(&spec("inf2.xlarge"), &winding).unwrap_err().to_string(),
        format!(
            "root {} does not exist and is written with `..`: write where it shall be without it",
            winding.display()
        )
    );
    fs::create_dir(&root).unwrap();
    fs::write(root.join("notes"), "mine").unwrap();
    assert_eq!(
        up(&spec("inf2.xlarge"), &root).unwrap_err().to_string(),
        format!(
            "root {} is not empty and holds no fake machine: give an empty folder, or one that `fake-neuron up` made",
            root.display()
        )
    );
    assert_eq!(
        Machine::down_at(&root).unwrap_err().to_string(),
        format!("root {} holds no fake machine: make one with `fake-neuron up`", root.display())
    );
    let file = root.join("notes");
    assert_eq!(
        up(&spec("inf2.xlarge"), &file).unwrap_err().to_string(),
        format!("root {} is not a folder: give a folder of its own, such as /tmp/node1", file.display())
    );
    fs::write(root.join(MARKER), "{}").unwrap();
    assert_eq!(
        Machine::down_at(&root).unwrap_err().to_string(),
        format!(
            "{}/.fake-neuron.json does not describe a fake machine: missing field `complete` at line 1 column 2; empty the folder by hand",
            root.display()
        )
    );
    assert_eq!(
        listing(folder.path()).into_keys().collect::<Vec<_>>(),
        ["node/.fake-neuron.json", "node/notes"]
    );
}

#[test]
fn a_link_in_the_root_is_never_followed_out_of_it() {
    let (folder, root) = place();
    let machine = up(&spec("trn2.3xlarge"), &root).unwrap();
    let outside = folder.path().canonicalize().unwrap().join("outside");
    fs::rename(root.join("sys"), &outside).unwrap();
    symlink(&outside, root.join("sys")).unwrap();
    let before = listing(&outside);
    let message = format!(
        "{}/sys is not a folder: fake-neuron does not follow it out of its root; remove it",
        root.display()
    );
    assert_eq!(machine.set_health(0, &Health::unhealthy("hbm")).unwrap_err().to_string(), message);
    assert_eq!(machine.lose(0).unwrap_err().to_string(), message);
    assert_eq!(machine.restore(0).unwrap_err().to_string(), message);
    assert_eq!(machine.down().unwrap_err().to_string(), message);
    assert_eq!(listing(&outside), before);
}

#[test]
fn a_foreign_file_in_the_way_is_kept() {
    let (_folder, root) = place();
    let machine = up(&spec("trn1.2xlarge"), &root).unwrap();
    fs::write(root.join("opt"), "mine").unwrap();
    let asked = MachineSpec { lnc: Some(1), ..spec("trn1.2xlarge") };
    assert_eq!(
        up(&asked, machine.root()).unwrap_err().to_string(),
        format!(
            "{}/opt is not a folder: fake-neuron does not follow it out of its root; remove it",
            root.display()
        )
    );
    assert_eq!(read(&root, "opt"), "mine");
}

#[rstest]
#[case("trn2.3xlarge")]
#[case("trn3e.24xlarge")]
fn newer_generations_name_what_is_broken(#[case] instance_type: &str) {
    let (_folder, root) = place();
    let machine = up(&spec(instance_type), &root).unwrap();
    let broken = Health::Unhealthy { components: vec!["hbm".to_owned(), "link_intraserver".to_owned()] };
    machine.set_health(0, &broken).unwrap();
    assert_eq!(sysfs(&root, 0, UNHEALTHY), "hbm,link_intraserver\n");
    machine.set_health(0, &Health::Healthy).unwrap();
    assert_eq!(sysfs(&root, 0, UNHEALTHY), "\n");
}

#[rstest]
#[case("inf2.24xlarge")]
#[case("trn1.32xlarge")]
fn older_generations_count_memory_errors(#[case] instance_type: &str) {
    let (_folder, root) = place();
    let machine = up(&spec(instance_type), &root).unwrap();
    let counters = || {
        let counter = |name: &str| sysfs(&root, 2, &format!("stats/hardware/{name}_ecc_uncorrected"));
        [counter("mem"), counter("sram")]
    };
    machine.set_health(2, &Health::unhealthy("hbm")).unwrap();
    assert_eq!(counters(), ["1\n", "0\n"]);
    machine.set_health(2, &Health::unhealthy("sram")).unwrap();
    assert_eq!(counters(), ["0\n", "1\n"]);
    machine.set_health(2, &Health::Healthy).unwrap();
    assert_eq!(counters(), ["0\n", "0\n"]);
}

#[test]
fn an_unhealthy_inf1_device_is_lost() {
    let (_folder, root) = place();
    let machine = up(&spec("inf1.6xlarge"), &root).unwrap();
    let whole = listing(&root);
    machine.set_health(1, &Health::unhealthy("hbm")).unwrap();
    assert!(!root.join("dev/neuron1").exists());
    machine.set_health(1, &Health::Healthy).unwrap();
    assert_eq!(listing(&root), whole);
}

#[test]
fn a_lost_device_vanishes_alone_and_comes_back_as_it_was_made() {
    let (_folder, root) = place();
    let machine = up(&spec("trn1.32xlarge"), &root).unwrap();
    let whole = listing(&root);
    machine.lose(15).unwrap();
    machine.lose(15).unwrap();
    let left = listing(&root);
    let gone: Vec<&String> = whole.keys().filter(|path| !left.contains_key(*path)).collect();
    assert!(gone.iter().all(|path| path.contains("neuron15")), "{gone:?}");
    assert!(!left.keys().any(|path| path.contains("neuron15")));
    let again = Machine::open(&root).unwrap();
    again.restore(15).unwrap();
    again.restore(15).unwrap();
    assert_eq!(listing(&root), whole);
    machine.lose(0).unwrap();
    machine.down().unwrap();
    assert!(!root.exists());
}

#[rstest]
#[case("trn2.3xlarge", 1, "hbm", "trn2.3xlarge has no device 1: its devices are 0 to 0")]
#[case(
    "trn1.2xlarge",
    0,
    "link_host",
    "device 0 of trn1.2xlarge cannot show component \"link_host\": name one of hbm, sram"
)]
fn health_that_cannot_be_shown_is_refused(
    #[case] instance_type: &str,
    #[case] device: u8,
    #[case] component: &str,
    #[case] message: &str,
) {
    let (_folder, root) = place();
    let machine = up(&spec(instance_type), &root).unwrap();
    let before = listing(&root);
    assert_eq!(machine.set_health(device, &Health::unhealthy(component)).unwrap_err().to_string(), message);
    assert_eq!(listing(&root), before);
}

#[test]
fn a_lost_device_and_an_empty_list_are_refused() {
    let (_folder, root) = place();
    let machine = up(&spec("inf2.xlarge"), &root).unwrap();
    let nothing = Health::Unhealthy { components: Vec::new() };
    assert_eq!(
        machine.set_health(0, &nothing).unwrap_err().to_string(),
        "device 0 of inf2.xlarge cannot be unhealthy without a component: name one of hbm, sram"
    );
    machine.lose(0).unwrap();
    assert_eq!(
        machine.set_health(0, &Health::Healthy).unwrap_err().to_string(),
        "device 0 of inf2.xlarge is lost: restore it before its health can change"
    );
}

#[test]
fn device_nodes_are_characters_with_the_drivers_numbers() {
    let (_folder, root) = place();
    up(&spec("trn1.32xlarge"), &root).unwrap();
    let node = root.join("dev/neuron7").metadata().unwrap();
    if !node.file_type().is_char_device() {
        println!("skipped: device nodes may not be made here, so /dev/neuronN are plain files");
        return;
    }
    let (major, minor) = (node.rdev() >> 8, node.rdev() & 0xff);
    assert_eq!(format!("{major}:{minor}\n"), sysfs(&root, 7, "dev"));
    assert_eq!(node.mode() & 0o777, 0o666);
}
