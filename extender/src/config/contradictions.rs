//! What cannot be meant together, or not without something else. Asked once command line, environment and file are read.

use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Command};

use super::Arguments;

/// Refuses flags of which one makes another one wrong, and a replica that does not know its pod; what else one flag needs of another stands
/// at the flag.
///
/// # Errors
/// Which, and what to leave out or give.
pub(super) fn refuse_contradictions(
    command: &mut Command,
    arguments: &Arguments,
    matches: &ArgMatches,
) -> Result<(), clap::Error> {
    let is_set = |id| matches.value_source(id).is_some_and(|source| source != ValueSource::DefaultValue);
    if arguments.leader_elect && (arguments.pod_name.is_none() || arguments.pod_namespace.is_none()) {
        return Err(command.error(
            ErrorKind::MissingRequiredArgument,
            "--leader-elect (or NEURON_LEADER_ELECT) needs the name and the namespace of the pod that this runs in: give --pod-name and \
             --pod-namespace, or set POD_NAME and POD_NAMESPACE by a fieldRef to metadata.name and metadata.namespace, as \
             deploy/k8s-neuron-scheduler-eks.yml does",
        ));
    }
    let port = arguments.port;
    match arguments.listen {
        Some(listen) if is_set("port") && listen.port() != port => Err(command.error(
            ErrorKind::ArgumentConflict,
            format!(
                "--listen {listen} and --port {port} (or NEURON_LISTEN and PORT) are two ports to listen on: leave --port out, or \
                 give {} in both",
                listen.port()
            ),
        )),
        _ => Ok(()),
    }
}
