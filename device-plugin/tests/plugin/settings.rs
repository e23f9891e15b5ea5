//! What a deployer reads of the flags.

use clap::{CommandFactory as _, Parser as _};
use neuron_device_plugin::Arguments;

#[test]
fn every_flag_has_a_variable_and_a_row_with_its_default_in_the_table() {
    let document = include_str!("../../../docs/deploy.md");
    let (_, table) = document.split_once("## Settings of the device plugin\n").unwrap();
    let mut command = Arguments::command();
    command.build();
    for argument in command.get_arguments() {
        let Some(flag) = argument.get_long().filter(|flag| !matches!(*flag, "help" | "version")) else {
            continue;
        };
        let variable = argument.get_env().unwrap_or_else(|| panic!("--{flag} has no variable"));
        let row = format!("| `--{flag}` | `{}` | ", variable.to_str().unwrap());
        let rest = table.lines().find_map(|line| line.strip_prefix(&*row));
        let rest = rest.unwrap_or_else(|| panic!("docs/deploy.md has no row that begins with {row}"));
        let default: Vec<_> =
            argument.get_default_values().iter().filter_map(|value| value.to_str()).collect();
        let stated = rest.split_once('|').unwrap().0.trim().trim_matches('`');
        let takes_value = argument.get_action().takes_values();
        assert_eq!(
            stated,
            if takes_value { default.concat() } else { "false".to_owned() },
            "the default of --{flag}"
        );
    }
}

/// A plugin that ends leaves open calls twenty seconds, of which all else takes six.
#[test]
fn a_wait_for_processes_ends_before_the_plugin_may() {
    let limit = |seconds: &str| {
        Arguments::try_parse_from(["plugin", "--node-name", "n1", "--handover-limit", seconds]).map(drop)
    };
    limit("13").unwrap();
    let refused = limit("14").unwrap_err().to_string();
    assert!(refused.contains("14 is not in 0..=13"), "{refused}");
}
