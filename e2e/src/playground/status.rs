//! `neuron-e2e cluster status`.

use std::io::{IsTerminal as _, stdout};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, ValueEnum};
use futures::StreamExt as _;
use kube::Client;

use super::{DEFAULT_NAME, next, say, show};
use crate::kind::OWNER;
use crate::report::colours::Paint;
use crate::view::look::{changes, look};
use crate::view::{View, client};

/// Changes that come together are drawn together.
const TOGETHER: Duration = Duration::from_millis(200);
/// Clears a terminal and begins at its top.
const CLEAR: &str = "\x1b[2J\x1b[3J\x1b[H";

/// Which cluster, and how to show it.
#[derive(Clone, Debug, Args)]
pub struct Arguments {
    /// Name of a cluster that `cluster up` made.
    #[arg(long, default_value = DEFAULT_NAME, conflicts_with_all = ["context", "kubeconfig"])]
    name: String,
    /// Any other cluster: a context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
    /// Any other cluster: its kubeconfig; without --context its current one.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Draw again whenever something changes, until Ctrl-C.
    #[arg(long)]
    watch: bool,
    /// How to print it.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    #[default]
    Drawing,
    /// For programs; with --watch one line each time.
    Json,
}

/// Shows the cluster, once or until Ctrl-C.
pub(super) async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let client = chosen(&arguments).await?;
    if arguments.watch {
        return watch(&client, arguments.output).await;
    }
    let view = look(&client).await?;
    match arguments.output {
        Output::Drawing => say(&show::text(&view, Paint::of_stdout())),
        Output::Json => say(&(serde_json::to_string_pretty(&view)? + "\n")),
    }
}

async fn chosen(arguments: &Arguments) -> anyhow::Result<Client> {
    let context = arguments.context.as_deref();
    match &arguments.kubeconfig {
        Some(file) => client::client(Some(file), context).await,
        None if context.is_some() => client::client(None, context).await,
        None => {
            let (name, file) = (&arguments.name, OWNER.kubeconfig(&arguments.name));
            if !file.exists() {
                bail!(
                    "there is no cluster {name:?} of `{you} cluster up`; `{you} cluster list` shows those there are, \
                     --context and --kubeconfig look at any other",
                    you = next::program()
                );
            }
            client::client(Some(&file), None).await
        }
    }
}

/// Shows the cluster each time that it is not as it was shown last.
async fn watch(client: &Client, output: Output) -> anyhow::Result<()> {
    let mut changes = changes(client);
    let mut shown: Option<View> = None;
    let mut told: Option<String> = None;
    let interrupted = tokio::signal::ctrl_c();
    tokio::pin!(interrupted);
    loop {
        match look(client).await {
            Ok(view) => {
                if shown.as_ref() != Some(&view) {
                    show(&view, output)?;
                    shown = Some(view);
                }
                told = None;
            }
            // The API server may come back; the watches go on.
            Err(error) => {
                let text = format!("{error:#}");
                if told.as_ref() != Some(&text) {
                    eprintln!("{text}");
                }
                (shown, told) = (None, Some(text));
            }
        }
        let together = async {
            changes.next().await?;
            let _until_then = tokio::time::timeout(TOGETHER, changes.by_ref().for_each(async |()| ())).await;
            Some(())
        };
        tokio::select! {
            _ = &mut interrupted => return Ok(()),
            change = together => change.context("the watches have ended")?,
        }
    }
}

fn show(view: &View, output: Output) -> anyhow::Result<()> {
    let text = show::text(view, Paint::of_stdout());
    match output {
        Output::Drawing if stdout().is_terminal() => say(&format!("{CLEAR}{text}")),
        Output::Drawing => say(&(text + "\n")),
        Output::Json => say(&(serde_json::to_string(view)? + "\n")),
    }
}
