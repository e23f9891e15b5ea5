//! `fake-neuron exec`: an unmodified program finds the machine at the real paths, whoever runs it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod running;

use std::fs;
use std::path::Path;

use fake_neuron::Machine;
use neuron_core::catalog::Catalog;
use running::{
    NOBODY, WAIT_FOR, as_nobody, exec, is_possible, is_root, line, open_to_all, outside, printed, skipped,
    started, text,
};
use rustix::process::geteuid;

/// Facts of every device as a program reads them: id, cores, links, number, and of the node its type and numbers.
const FACTS: &str = r#"
    cat /sys/devices/virtual/dmi/id/product_name /sys/class/dmi/id/board_asset_tag /sys/module/neuron/version
    grep -c neuron /proc/devices
    [ ! -e /proc/modules ] || grep -c '^neuron ' /proc/modules
    for device in /sys/class/neuron_device/neuron[0-9]*; do
        id=${device##*neuron}
        echo "$id|$(cat $device/core_count)|$(cat $device/connected_devices)|$(cat $device/dev)|$(stat -c %F,%t,%T /dev/neuron$id)"
    done | sort -n
"#;

#[test]
fn every_type_stands_at_the_real_paths() {
    if !is_possible() {
        return;
    }
    let before = outside();
    for model in Catalog::embedded().types() {
        let said = printed(&exec(&model.name, &["--", "sh", "-c", FACTS]).output().unwrap());
        let mut lines = said.lines();
        assert_eq!(lines.next(), Some(model.name.as_str()));
        assert!(lines.next().is_some_and(|id| id.starts_with("i-0")), "{said}");
        assert!(lines.next().is_some_and(|version| version.starts_with("2.")), "{said}");
        assert_eq!(lines.next(), Some("1"), "{said}");
        if Path::new("/proc/modules").exists() {
            assert_eq!(lines.next(), Some("1"), "{said}");
        }
        let devices: Vec<String> = (0..model.devices)
            .map(|id| {
                let links: Vec<String> =
                    model.driver_links[usize::from(id)].iter().map(u8::to_string).collect();
                let (cores, links) = (model.cores_per_device, links.join(", "));
                format!("{id}|{cores}|{links}|120:{id}|character special file,78,{id:x}")
            })
            .collect();
        assert_eq!(lines.collect::<Vec<_>>(), devices, "{}", model.name);
    }
    assert_eq!(outside(), before);
}

#[test]
fn what_else_the_host_has_is_still_there() {
    if !is_possible() {
        return;
    }
    let there = "echo seen >/dev/null; head -c 8 /dev/zero | wc -c; ls /sys/class/net /sys/module/kernel >/dev/null && \
                 readlink -f /sys/class/neuron_device/neuron0; echo /dev/neuron*; cat /dev/kmsg; cat /proc/self/comm; pwd";
    let folder = tempfile::tempdir().unwrap();
    let said = exec("inf2.xlarge", &["--", "sh", "-c", there]).current_dir(folder.path()).output().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    assert_eq!(
        printed(&said),
        format!("8\n/sys/devices/virtual/neuron_device/neuron0\n/dev/neuron0\ncat\n{}\n", folder.display())
    );
    let before = outside().1;
    let [dev, _, class, ..] = before.as_slice() else { panic!("{before:?}") };
    let count = |path: &str| format!("ls {path} | wc -l");
    let counted = |path: &str| {
        printed(&exec("inf2.xlarge", &["--", "sh", "-c", &count(path)]).output().unwrap())
            .trim()
            .parse()
            .unwrap()
    };
    // One device, and a kernel log also where the host has none; its class and DMI.
    assert!((dev.len() + 1..=dev.len() + 2).contains(&counted("/dev")));
    assert!((class.len() + 1..=class.len() + 2).contains(&counted("/sys/class")));
}

#[test]
fn the_tools_are_found_unless_told_otherwise() {
    if !is_possible() {
        return;
    }
    let script = "command -v neuron-ls; command -v neuron-monitor; echo $FAKE_NEURON_ROOT; test -e $FAKE_NEURON_ROOT/.fake-neuron.json \
                  && ls /opt/aws/neuron/bin; echo \"${NEURON_ROOT-unset}\"";
    let with =
        exec("trn1.2xlarge", &["--", "sh", "-c", script]).env("NEURON_ROOT", "/elsewhere").output().unwrap();
    assert_eq!(
        printed(&with),
        "/opt/aws/neuron/bin/neuron-ls\n/opt/aws/neuron/bin/neuron-monitor\n/opt/fake-neuron\nneuron-ls\nneuron-monitor\nunset\n"
    );
    let path = [
        "--no-path",
        "--",
        "sh",
        "-c",
        "echo $PATH; /opt/aws/neuron/bin/neuron-ls -j >/dev/null && echo runs",
    ];
    let without = exec("trn1.2xlarge", &path).env("PATH", "/usr/bin:/bin").output().unwrap();
    assert_eq!(printed(&without), "/usr/bin:/bin\nruns\n");
}

#[test]
fn the_tools_need_nothing_of_the_environment() {
    if !is_possible() {
        return;
    }
    let script = "exec 3<>/dev/neuron0; echo $$; env -i /opt/aws/neuron/bin/neuron-ls -a -j";
    let said = printed(&exec("trn1.2xlarge", &["--", "sh", "-c", script]).output().unwrap());
    shell_is_listed(&said);
}

/// That the shell, whose number comes first, is the first process of the first device in the list after it.
fn shell_is_listed(said: &str) {
    let (process, listed) = said.split_once('\n').unwrap();
    let listed: serde_json::Value = serde_json::from_str(listed).unwrap();
    assert_eq!(listed[0]["neuron_processes"][0]["pid"].to_string(), process, "{listed}");
}

#[test]
fn the_module_counts_who_uses_it() {
    if !is_possible() {
        return;
    }
    let script = format!(
        "{WAIT_FOR}module=/sys/module/neuron/refcnt; cat $module; exec 3<>/dev/neuron0; cat $module; exec 3>&-; \
         wait_for grep -q 0 $module; cat $module"
    );
    let said = printed(&exec("trn1.2xlarge", &["--", "sh", "-c", &script]).output().unwrap());
    assert_eq!(said, "0\n1\n0\n");
}

#[test]
fn a_link_to_a_device_is_the_device() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A relative one to an absolute one.
    let script = format!(
        "cd {}; ln -s /dev/neuron0 first; ln -s first second; exec 3<>second; echo $$; neuron-ls -a -j",
        folder.path().display()
    );
    let said = printed(&exec("trn1.2xlarge", &["--", "sh", "-c", &script]).output().unwrap());
    shell_is_listed(&said);
}

#[test]
fn the_setting_of_logical_cores_stands_where_tools_read_it() {
    if !is_possible() {
        return;
    }
    let read = ["--", "cat", "/opt/aws/neuron/logical_nc_config"];
    let one = exec("trn2.48xlarge", &["--lnc", "1"]).args(read).output().unwrap();
    assert_eq!(printed(&one), "NEURON_LOGICAL_NC_CONFIG=1");
    let none = exec("trn2.48xlarge", &read).output().unwrap();
    assert_eq!(none.status.code(), Some(1));
}

#[test]
fn an_ordinary_user_may_do_it_too() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cat /sys/class/dmi/id/product_name; ls /dev/neuron* | wc -l; echo x >/dev/null && id -u; stat -c %F,%t,%T,%a /dev/neuron7";
    let arguments = ["exec", "--instance-type", "trn1.32xlarge", "--", "sh", "-c", script];
    let Some(mut command) = as_nobody(&folder, &arguments) else { return };
    let output = command.output().unwrap();
    if text(&output.stderr).contains("namespaces are not permitted") {
        return skipped(text(&output.stderr).trim());
    }
    let user = if is_root() { NOBODY.to_owned() } else { geteuid().as_raw().to_string() };
    assert_eq!(printed(&output), format!("trn1.32xlarge\n16\n{user}\ncharacter special file,78,7,666\n"));
}

#[test]
fn what_changes_below_the_root_changes_at_the_real_paths() {
    if !is_possible() {
        return;
    }
    // As a fault does it: files are moved away or replaced.
    let script = r#"
        root=$FAKE_NEURON_ROOT
        mkdir $root/away
        mv $root/sys/devices/virtual/neuron_device/neuron3 $root/dev/neuron4 $root/sys/module/neuron $root/away
        ls /sys/devices/virtual/neuron_device /dev | grep -cx 'neuron[0-9]*'; ls -d /sys/module/neuron 2>/dev/null
        echo replaced >$root/away/devices; mv -f $root/away/devices $root/proc/devices
        wait_for grep -x replaced /proc/devices; cat /proc/devices
        echo 3,1,5,-';line' >>$root/dev/kmsg; cat /dev/kmsg"#;
    let output = exec("trn1.32xlarge", &["--", "sh", "-c", &format!("{WAIT_FOR}{script}")]).output().unwrap();
    assert_eq!(printed(&output), "30\nreplaced\n3,1,5,-;line\n");
}

#[test]
fn the_machine_is_changed_from_outside_through_the_process() {
    if !is_possible() {
        return;
    }
    let script = format!("{WAIT_FOR}echo ready; wait_for test ! -e /dev/neuron5; ls /dev/neuron* | wc -l");
    let (mut running, mut output) = started(exec("trn1.32xlarge", &["--", "sh", "-c", &script]));
    assert_eq!(line(&mut output), "ready");
    let machine = Machine::open(Path::new(&format!("/proc/{}/root/opt/fake-neuron", running.id()))).unwrap();
    assert_eq!(machine.instance_type(), "trn1.32xlarge");
    machine.lose(5).unwrap();
    assert_eq!(line(&mut output), "15");
    assert!(running.wait().unwrap().success());
}

#[test]
fn one_machine_may_stand_inside_another() {
    if !is_possible() {
        return;
    }
    // The host's other DMI files stay, too: here that of the outer machine's namespace.
    let script = format!(
        "echo maker >/sys/class/dmi/id/bios_vendor; exec {} exec --no-ioctl --instance-type inf2.xlarge -- sh -c \
         'cat /sys/class/dmi/id/product_name /sys/class/dmi/id/bios_vendor; ls /dev | grep neuron; \
         ls /sys/class/neuron_device | grep neuron; grep -c neuron /proc/devices'",
        env!("CARGO_BIN_EXE_fake-neuron")
    );
    let output = exec("trn1.32xlarge", &["--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(printed(&output), "inf2.xlarge\nmaker\nneuron0\nneuron0\n1\n");
}

#[test]
fn a_folder_of_ones_own_is_the_root_inside_only() {
    if !is_possible() {
        return;
    }
    let folder = testkit_support::short_folder().unwrap();
    let root = folder.path().canonicalize().unwrap();
    let script = "echo $FAKE_NEURON_ROOT; ls $FAKE_NEURON_ROOT; ls -d /opt/fake-neuron 2>/dev/null";
    let output =
        exec("inf2.xlarge", &["--root", root.to_str().unwrap(), "--", "sh", "-c", script]).output().unwrap();
    assert_eq!(text(&output.stdout), format!("{}\ndev\nopt\nproc\nsys\n", root.display()));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
}

#[test]
fn the_root_need_not_be_writable() {
    let (folder, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    open_to_all(root.path());
    let path = root.path().to_str().unwrap();
    let script = "echo $FAKE_NEURON_ROOT; ls $FAKE_NEURON_ROOT/dev/neuron*";
    let arguments = ["exec", "--instance-type", "inf2.xlarge", "--root", path, "--", "sh", "-c", script];
    let Some(mut command) = as_nobody(&folder, &arguments) else { return };
    let output = command.output().unwrap();
    if text(&output.stderr).contains("namespaces are not permitted") {
        return skipped(text(&output.stderr).trim());
    }
    assert_eq!(printed(&output), format!("{path}\n{path}/dev/neuron0\n"));
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn an_open_device_is_in_the_list_of_processes_until_it_is_closed() {
    if !is_possible() {
        return;
    }
    // A close is noticed within a second.
    let script = r#"
        list=$FAKE_NEURON_ROOT/.fake-neuron/processes.json
        exec 3<>/dev/neuron5 && wait_for grep -q '"devices":\[5\]' $list; echo open
        exec 3<&-; wait_for grep -qx '\[\]' $list; echo closed"#;
    let output = exec("trn1.32xlarge", &["--", "sh", "-c", &format!("{WAIT_FOR}{script}")]).output().unwrap();
    assert_eq!(printed(&output), "open\nclosed\n");
}

#[test]
fn faults_of_a_file_come_in_their_time_and_others_on_command() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.json");
    let faults = r#"[{"fault": "wrong-lnc", "lnc": 1}, {"fault": "driver-unloaded", "after": "1s", "for": "1s"},
        {"fault": "kernel-error", "device": 2, "kind": "DMA_ERROR"}]"#;
    fs::write(&file, faults).unwrap();
    let script = format!(
        r#"
        {WAIT_FOR}
        unloaded() {{ [ ! -e /sys/module/neuron ] && [ ! -e /dev/neuron0 ] && ! grep -q neuron /proc/devices; }}
        loaded() {{ [ -e /sys/module/neuron ] && [ -e /dev/neuron0 ] && grep -q neuron /proc/devices; }}
        # Those without a time are there from the start.
        cat /opt/aws/neuron/logical_nc_config; echo; cut -d' ' -f2 /dev/kmsg
        wait_for unloaded; echo unloaded
        wait_for loaded; echo loaded
        {fake_neuron} fault device-lost --device 4 >/dev/null; ls /dev/neuron* | wc -l
        {fake_neuron} fault clear >/dev/null; ls /dev/neuron* | wc -l"#,
        fake_neuron = env!("CARGO_BIN_EXE_fake-neuron"),
    );
    let output =
        exec("trn2.48xlarge", &["--faults", file.to_str().unwrap(), "--", "sh", "-c", &script]).output();
    assert_eq!(
        printed(&output.unwrap()),
        "NEURON_LOGICAL_NC_CONFIG=1\nNEURON_HW_ERR=DMA_ERROR\nunloaded\nloaded\n15\n16\n"
    );
}

#[test]
fn a_load_moves_the_counters() {
    if !is_possible() {
        return;
    }
    let script = "cd /sys/class/neuron_device/neuron0/neuron_core0/stats; wait_for grep -q '[1-9]' status/success/total; echo moves";
    let script = format!("{WAIT_FOR}{script}");
    let output = exec("trn1.2xlarge", &["--load", "training", "--", "sh", "-c", &script]).output().unwrap();
    assert_eq!(printed(&output), "moves\n");
}

#[test]
fn a_fault_whose_program_was_killed_ends_inside() {
    if !is_possible() {
        return;
    }
    let script = format!(
        "{WAIT_FOR}fake-neuron fault reset --device 0 --for 3s >said 2>/dev/null & killed=$!; wait_for grep -q force said; \
         kill -9 $killed; cat /sys/class/neuron_device/neuron0/reset; \
         wait_for grep -q 1 /sys/class/neuron_device/neuron0/reset; cat /sys/class/neuron_device/neuron0/reset"
    );
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_fake-neuron"), folder.path().join("fake-neuron")).unwrap();
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut command = exec("trn1.2xlarge", &["--", "sh", "-c", &script]);
    let said = command.env("PATH", path).current_dir(folder.path()).output().unwrap();
    assert_eq!(printed(&said), "0\n1\n");
}

#[test]
fn nobody_writes_what_sysfs_lets_nobody_write() {
    if !is_possible() {
        return;
    }
    let script = "cd /sys/class/neuron_device/neuron0
        for file in core_count /sys/module/neuron/version reset stats/hardware/mem_ecc_uncorrected; do
            if (echo 0 >$file) 2>/dev/null; then echo written; else echo refused; fi
        done
        cat core_count; cat reset; echo 5 >$FAKE_NEURON_ROOT/sys/module/neuron/version; cat /sys/module/neuron/version";
    let said = printed(&exec("trn1.2xlarge", &["--", "sh", "-c", script]).output().unwrap());
    assert_eq!(said, "refused\nrefused\nwritten\nwritten\n20\n5\n");
}
