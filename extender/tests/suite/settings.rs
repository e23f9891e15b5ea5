//! Flags, variables and the configuration file: which counts, what is refused, and what a deployer reads of them.

use std::ffi::OsString;

use clap::CommandFactory as _;
use neuron_extender::{Arguments, Settings};
use rstest::rstest;
use tempfile::NamedTempFile;

use crate::program;

/// What comes of these words, or the text of the refusal.
fn read(words: &[&str]) -> Result<Settings, String> {
    let words = ["neuron-extender"].iter().chain(words).map(OsString::from);
    Settings::read(words).map_err(|error| {
        assert_eq!(error.exit_code(), 2);
        error.to_string()
    })
}

fn file(text: &str) -> (NamedTempFile, String) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    (file, path)
}

#[test]
fn every_flag_has_a_variable_and_a_row_in_the_table() {
    let document = include_str!("../../../docs/deploy.md");
    let mut command = Arguments::command();
    command.build();
    for argument in command.get_arguments() {
        let Some(flag) = argument.get_long().filter(|flag| !matches!(*flag, "help" | "version")) else {
            continue;
        };
        let variable = argument.get_env().unwrap_or_else(|| panic!("--{flag} has no variable"));
        let row = format!("| `--{flag}` | `{}` |", variable.to_str().unwrap());
        assert!(document.contains(&row), "docs/deploy.md has no row that begins with {row}");
    }
}

#[rstest]
#[case("policy: linked\nlease-grace: off # Leases are not looked at\nbind-deadline: 3s\nport: 80\n")]
#[case(r#"{"policy": "linked", "lease-grace": "off", "bind-deadline": "3s", "port": 80}"#)]
fn a_file_has_flags_by_their_long_names(#[case] text: &str) {
    let (_file, path) = file(text);
    let settings = read(&["--bind-deadline", "2s", "--config", &path, "--listen", "127.0.0.1:80"]).unwrap();
    assert_eq!(settings.arguments.config().lease_grace, None);
    assert_eq!(
        settings.effective.to_string(),
        format!(
            "config={path} (command line), listen=127.0.0.1:80 (command line), port=80 (file), log-format=text (default), \
             policy=linked (file), bind-deadline=2s (command line), plugin-namespace=kube-system (default), lease-grace=off (file), \
             leader-elect=false (default), leader-elect-lease-duration=15s (default), \
             leader-elect-resource-name=k8s-neuron-scheduler (default)"
        )
    );
}

#[test]
fn an_election_needs_the_pod_that_takes_part() {
    let error = read(&["--leader-elect", "--pod-name=a"]).err().unwrap().to_string();
    assert!(error.contains("--pod-namespace"), "{error}");
    let (_file, path) = file("leader-elect: true\npod-name: a\npod-namespace: b\n");
    let election = read(&["--config", &path]).unwrap().arguments.config().leader_election.unwrap();
    assert_eq!((&*election.pod, &*election.namespace), ("a", "b"));
    assert!(
        read(&["--config", &path, "--leader-elect=false"])
            .unwrap()
            .arguments
            .config()
            .leader_election
            .is_none()
    );
    let (_file, path) = file("leader-elect: maybe\n");
    let error = read(&["--config", &path]).err().unwrap().to_string();
    let named = format!("leader-elect: maybe in the configuration file {path}: ");
    assert!(error.contains(&named), "{error}");
    let error = read(&["--leader-elect-lease-duration", "1500ms"]).err().unwrap().to_string();
    assert!(error.contains("whole seconds"), "{error}");
}

#[test]
fn the_environment_goes_before_the_file_and_names_it() {
    let (_file, path) = file("policy: linked\nport: 80\n");
    let variables = [("NEURON_CONFIG", &*path), ("PORT", "81")];
    let output = program::run(&["--kubeconfig=/nowhere"], &variables);
    let log = String::from_utf8(output.stderr).unwrap();
    let shown = format!("config={path} (NEURON_CONFIG), port=81 (PORT), log-format=text (default)");
    assert!(log.contains(&shown) && log.contains("policy=linked (file)"), "{log}");
}

#[test]
fn an_empty_file_says_nothing() {
    let (_file, path) = file("# nothing yet\n");
    read(&["--config", &path]).unwrap();
}

#[rstest]
#[case::unknown_key(
    "polcy: linked",
    "has \"polcy\", which is no flag; possible are listen, port, log-format,"
)]
#[case::itself("config: other.yaml", "has \"config\", which is no flag")]
#[case::value(
    "policy: any",
    "policy: any in the configuration file FILE: \"any\" is not a placement policy; use documented or linked"
)]
#[case::one_of(
    "log-format: xml",
    "log-format: xml in the configuration file FILE: possible are text, json, classic"
)]
#[case::range("port: 70000", "port: 70000 in the configuration file FILE: 70000 is not in 0..=65535")]
#[case::time("bind-deadline: 0s", "bind-deadline: 0s in the configuration file FILE: not a time above zero")]
#[case::list(
    "policy: [linked]",
    "the configuration file FILE is no YAML or JSON object of flags and their values"
)]
#[case::twice(
    "port: 1\nport: 2",
    "the configuration file FILE is no YAML or JSON object of flags and their values"
)]
#[case::no_object(
    "linked",
    "the configuration file FILE is no YAML or JSON object of flags and their values"
)]
#[case::half("tls-cert: tls.crt", "--tls-key <FILE>")]
fn what_is_wrong_in_a_file_is_named(#[case] text: &str, #[case] refusal: &str) {
    let (_file, path) = file(text);
    let shown = read(&["--config", &path]).unwrap_err();
    assert!(
        shown.contains(
            &refusal.replace("FILE:", &format!("{path}:")).replace("FILE is", &format!("{path} is"))
        ),
        "{shown}"
    );
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let shown = read(&["--config=/nowhere/extender.yaml"]).unwrap_err();
    assert!(
        shown.contains("the configuration file /nowhere/extender.yaml cannot be read: No such file"),
        "{shown}"
    );
}

#[rstest]
#[case::two_ports(&["--listen", "127.0.0.1:80", "--port", "81"], "leave --port out, or give 80 in both")]
#[case::ca_alone(&["--client-ca", "ca.crt"], "--tls-cert <FILE>")]
#[case::certificate_alone(&["--tls-cert", "tls.crt"], "--tls-key <FILE>")]
#[case::long_bind(&["--bind-deadline", "60s"], "too long: devices of a bind whose outcome is not known are kept for 60s; give less")]
#[case::grace_below_zero(&["--lease-grace=-1s"], "not a time above zero; write it like 4s or 500ms, or off")]
#[case::no_namespace(&["--plugin-namespace="], "a value is required for '--plugin-namespace <NAMESPACE>'")]
#[case::no_pod(&["--leader-elect"], "set POD_NAME and POD_NAMESPACE by a fieldRef to metadata.name and metadata.namespace")]
#[case::no_pod_name(&["--leader-elect", "--pod-namespace=a", "--pod-name="], "a value is required for '--pod-name <NAME>'")]
#[case::no_lease(&["--leader-elect-resource-name="], "a value is required for '--leader-elect-resource-name <NAME>'")]
fn contradictions_are_refused_with_the_way_out(#[case] words: &[&str], #[case] refusal: &str) {
    let shown = read(words).unwrap_err();
    assert!(shown.contains(refusal), "{shown}");
}

#[test]
fn what_says_the_same_twice_is_no_contradiction() {
    read(&["--listen", "127.0.0.1:80", "--port", "80"]).unwrap();
    read(&["--listen", "127.0.0.1:80"]).unwrap();
    read(&["--bind-deadline", "59s"]).unwrap();
}

#[test]
fn the_program_ends_with_2_on_a_contradiction() {
    let output = program::run(&["--listen", "127.0.0.1:80"], &[("PORT", "81")]);
    let shown = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{shown}");
    assert!(shown.contains("two ports to listen on"), "{shown}");
}

/// As where a volume is full, or who read the log has gone.
#[test]
fn a_log_that_cannot_be_written_ends_nothing() {
    for format in ["text", "json", "classic"] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let words = ["--kubeconfig=/nowhere/kubeconfig", "--log-format", format];
        let ended = program::run_with_log(&words, full.into());
        assert_eq!(ended.code(), Some(1), "{format}: it ends for want of an API server alone");
    }
}
