//! What `fake-neuron exec` refuses: the exact message, code 125, the program never run, nothing left.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod running;

use std::fs;
use std::process::Command;

use rstest::rstest;
use running::{exec, is_possible, outside, printed, program, skipped, text};

/// Bad input: what is said, code 125 each, and nothing that stays.
#[rstest]
#[case::unknown_type(
    &["--instance-type", "trn1.31xlarge"],
    "instance type trn1.31xlarge is not known: did you mean one of trn1.32xlarge, trn1n.32xlarge, trn1.2xlarge? `fake-neuron \
     list --aliases` shows every name and takes types of your own with --catalog"
)]
#[case::root_is_missing(
    &["--instance-type", "inf2.xlarge", "--root", "ROOT/none"],
    "root ROOT/none does not exist: make an empty folder, exec leaves none behind"
)]
#[case::root_is_not_empty(
    &["--instance-type", "inf2.xlarge", "--root", "ROOT"],
    "root ROOT is not empty and holds no fake machine: give an empty folder, or one that `fake-neuron up` made"
)]
#[case::root_is_a_file(
    &["--instance-type", "inf2.xlarge", "--root", "ROOT/file"],
    "root ROOT/file is not a folder: give a folder of its own, such as /tmp/node1"
)]
#[case::hosts_root(
    &["--instance-type", "inf2.xlarge", "--root", "/"],
    "root / is this host's own root: give a folder of its own, such as /tmp/node1"
)]
#[case::root_in_the_way(
    &["--instance-type", "inf2.xlarge", "--root", "/opt"],
    "root /opt is a folder in which the machine is shown: give one of its own, such as /tmp/node1"
)]
#[case::no_such_zone(
    &["--instance-type", "inf2.xlarge", "--imds", "--availability-zone", "mars"],
    "availability zone \"mars\" is none: write a region and a letter, such as us-east-1a"
)]
#[case::no_such_catalog(
    &["--instance-type", "inf2.xlarge", "--catalog", "ROOT/none.json"],
    "catalog ROOT/none.json cannot be read: No such file or directory (os error 2); give --catalog a file that can"
)]
fn bad_input_is_refused(#[case] arguments: &[&str], #[case] message: &str) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("file"), "mine").unwrap();
    let before = outside();
    let root_text = root.to_str().unwrap();
    let arguments = arguments.iter().map(|word| word.replace("ROOT", root_text));
    let output = program().arg("exec").args(arguments).args(["--", "sh", "-c", "echo ran"]).output().unwrap();
    assert_eq!(text(&output.stderr), format!("fake-neuron: {}\n", message.replace("ROOT", root_text)));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
    assert_eq!(fs::read_dir(&root).unwrap().count(), 1);
    assert_eq!(outside(), before);
}

/// An option that there is none of is no program; one that is a program's name comes after `--`.
#[rstest]
#[case::mistyped(&["--fault", "x.json", "--", "echo", "ran"], "--fault")]
#[case::mistyped_before_the_program(&["--lcn", "1", "echo", "ran"], "--lcn")]
#[case::with_its_value(&["--lcn=1", "echo", "ran"], "--lcn")]
#[case::short(&["-x", "echo", "ran"], "-x")]
fn a_mistyped_option_is_a_mistake(#[case] arguments: &[&str], #[case] option: &str) {
    let output = exec("inf2.xlarge", arguments).output().unwrap();
    let said = text(&output.stderr);
    assert!(said.starts_with(&format!("error: unexpected argument '{option}' found\n")), "{said}");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
}

#[test]
fn what_follows_the_program_is_its_own_and_its_name_may_begin_with_a_dash() {
    if !is_possible() {
        return;
    }
    let own = exec("inf2.xlarge", &["echo", "--lnc", "1", "-x", "--", "y"]).output().unwrap();
    assert_eq!(printed(&own), "--lnc 1 -x -- y\n");
    let named = exec("inf2.xlarge", &["--", "-no-such-program", "--lnc"]).output().unwrap();
    assert_eq!(text(&named.stderr), "fake-neuron: -no-such-program: no such program on PATH\n");
    assert_eq!(named.status.code(), Some(127));
}

/// The limits are those of a user namespace of the test's own, which has none left to give.
#[rstest]
#[case::mounts(
    "echo 0 >/proc/sys/user/max_mnt_namespaces",
    "",
    "making a mount namespace: No space left on device (os error 28); user.max_mnt_namespaces is 0, set it higher with sysctl"
)]
#[case::users(
    "echo 0 >/proc/sys/user/max_user_namespaces",
    "setpriv --bounding-set=-all",
    "making a user namespace: No space left on device (os error 28); user.max_user_namespaces is 0, set it higher with sysctl"
)]
fn the_setting_that_forbids_namespaces_is_named(
    #[case] limit: &str,
    #[case] without: &str,
    #[case] message: &str,
) {
    if !is_possible() {
        return;
    }
    let script = format!("{limit} && exec {without} \"$0\" exec --instance-type inf2.xlarge -- true");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "sh", "-c", &script, env!("CARGO_BIN_EXE_fake-neuron")]);
    let Ok(output) = command.output() else { return skipped("unshare is missing") };
    if text(&output.stderr).contains("unshare failed") || text(&output.stderr).starts_with("unshare:") {
        return skipped(text(&output.stderr).trim());
    }
    assert_eq!(
        (output.status.code(), text(&output.stderr)),
        (Some(125), format!("fake-neuron: namespaces are not permitted here: {message}\n"))
    );
}

/// What a malformed or impossible list of faults says; code 125.
#[rstest]
#[case::no_list("{}")]
#[case::unknown(r#"[{"fault": "meteor"}]"#)]
#[case::no_such_device(r#"[{"fault": "device-lost", "device": 1, "after": "1h"}]"#)]
fn impossible_faults_are_refused_before_the_program_runs(#[case] faults: &str) {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("faults.json");
    fs::write(&file, faults).unwrap();
    let before = outside();
    let arguments = ["--faults", file.to_str().unwrap(), "--", "sh", "-c", "echo ran"];
    let output = exec("inf2.xlarge", &arguments).output().unwrap();
    let name = format!("faults_{}", faults.split('"').nth(3).unwrap_or("none").replace('-', "_"));
    insta::assert_snapshot!(name, text(&output.stderr).replace(folder.path().to_str().unwrap(), "FOLDER"));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
    assert_eq!(outside(), before);
}

#[test]
fn only_one_supervisor_may_answer_a_program() {
    if !is_possible() {
        return;
    }
    let inner =
        [env!("CARGO_BIN_EXE_fake-neuron"), "exec", "--instance-type", "inf2.xlarge", "--", "echo", "ran"];
    let output = exec("trn1.2xlarge", &["--"]).args(inner).output().unwrap();
    assert_eq!(
        text(&output.stderr),
        "fake-neuron: the program's calls cannot be answered: Device or resource busy (os error 16); a supervisor answers them \
         already, as inside another `fake-neuron exec`: give --no-ioctl\n"
    );
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(125), ""));
}

/// What a container's profile or an old kernel keeps from fake-neuron: the call fails with this error.
#[rstest]
#[case::no_notification(
    "SYS_seccomp",
    "ENOSYS",
    "Function not implemented (os error 38); this kernel has no seccomp user notification, Linux 5.14 or newer has, or a \
     container's seccomp profile forbids it: with --no-ioctl the program runs, and no ioctl is answered"
)]
#[case::memory_of_others(
    "SYS_process_vm_readv",
    "EPERM",
    "Operation not permitted (os error 1); a seccomp profile forbids process_vm_readv, by which what the program asks for is \
     read, as a container's may: allow it there, or with --no-ioctl the program runs, and no ioctl is answered"
)]
fn a_call_that_the_supervisor_needs_and_has_not_is_said(
    #[case] call: &str,
    #[case] error: &str,
    #[case] message: &str,
) {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (source, without) = (folder.path().join("without.c"), folder.path().join("without"));
    fs::write(&source, WITHOUT_A_CALL).unwrap();
    let define = [format!("-DCALL={call}"), format!("-DERROR={error}")];
    let Ok(compiled) = Command::new("cc").args(define).arg("-o").arg(&without).arg(&source).output() else {
        return skipped("cc is missing");
    };
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    let run = |options: &[&str]| {
        let mut command = Command::new(&without);
        command
            .arg(env!("CARGO_BIN_EXE_fake-neuron"))
            .args(["exec", "--instance-type", "inf2.xlarge"])
            .args(options);
        command.args(["--", "echo", "ran"]).output().unwrap()
    };
    let before = outside();
    let refused = run(&[]);
    assert_eq!(
        text(&refused.stderr),
        format!("fake-neuron: the program's calls cannot be answered: {message}\n")
    );
    assert_eq!((refused.status.code(), text(&refused.stdout).as_str()), (Some(125), ""));
    assert_eq!(outside(), before);
    assert_eq!(printed(&run(&["--no-ioctl"])), "ran\n");
}

/// Runs a program to which one call fails.
const WITHOUT_A_CALL: &str = r#"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **words) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, CALL, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ERROR),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execv(words[1], words + 1);
    return 98;
}
"#;
