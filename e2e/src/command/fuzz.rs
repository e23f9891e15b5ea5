//! `neuron-e2e fuzz`: random scenarios, on either kind of cluster.

use std::io::{IsTerminal as _, stderr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use neuron_e2e_engine::embedded::Version;
use neuron_e2e_engine::fuzz::{self, Fuzz, Progress, Row};

use super::catalog::CatalogArguments;
use super::cluster_kind::{
    CATALOG_ON_KIND, ClusterKind, EMBEDDED_HEADING, SIDE_BY_SIDE, VERSION_ON_KIND, refuse_embedded_only,
    skipped,
};
use super::progress;
use crate::kind;
use crate::kind::fuzz::OnKind;
use crate::kind_arguments::KindArguments;
use crate::report::{Output, print};

/// The command line of `neuron-e2e fuzz`.
#[derive(Clone, Debug, Args)]
pub(super) struct FuzzArguments {
    /// Seed of the first scenario; the next ones have the next numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many scenarios.
    #[arg(long, default_value_t = 50)]
    count: u64,
    /// Scenarios that run at the same time [default: 2].
    #[arg(long, help_heading = EMBEDDED_HEADING)]
    jobs: Option<usize>,
    /// Kubernetes version that the cluster is, 1.34 or 1.37 [default: 1.37].
    #[arg(long, value_name = "VERSION", help_heading = EMBEDDED_HEADING)]
    kubernetes: Option<Version>,
    /// How to print what came of them.
    #[arg(short, long, value_enum, default_value_t)]
    output: Output,
    /// Folder for the scenario files of those that fail, made smaller.
    #[arg(long, value_name = "DIR", default_value = "fuzz-failures")]
    keep_failures: PathBuf,
    /// The cluster that runs them; on kind most also run embedded, and the outcomes are compared.
    #[arg(long, value_enum, default_value_t)]
    cluster: ClusterKind,
    #[command(flatten)]
    catalog: CatalogArguments,
    #[command(flatten)]
    kind: KindArguments,
}

/// Runs them and prints what came of it. Exit code 1 if one failed, 2 if none did and no cluster could be prepared for one.
pub(super) async fn run(arguments: FuzzArguments) -> anyhow::Result<ExitCode> {
    let FuzzArguments { seed, count, jobs, kubernetes, output, keep_failures, cluster, catalog, kind } =
        arguments;
    let fuzz = Fuzz {
        seed,
        count,
        jobs: jobs.unwrap_or(2),
        keep_failures,
        catalog: catalog.read()?,
        kubernetes: kubernetes.unwrap_or_default(),
    };
    let (rows, not_prepared) = match cluster {
        ClusterKind::Embedded => (on_embedded(&fuzz).await?, Vec::new()),
        ClusterKind::Kind => {
            refuse_embedded_only(&[
                ("--jobs", jobs.is_some(), SIDE_BY_SIDE),
                ("--kubernetes", kubernetes.is_some(), VERSION_ON_KIND),
                ("--catalog", catalog.is_given(), CATALOG_ON_KIND),
            ])?;
            // Plans have two nodes at most.
            let (schedulings, clusters, require) = (kind.schedulings(), kind.clusters, kind.require);
            match kind::fuzz::run(&fuzz, &schedulings, kind.options(2), clusters).await? {
                OnKind::Skipped(why) => return skipped(&why, require),
                OnKind::Ran { rows, not_prepared } => {
                    rows.iter()
                        .filter(|row| !row.passed)
                        .for_each(|row| print::progress(line(row, &fuzz, cluster)));
                    not_prepared.iter().for_each(print::progress);
                    (rows, not_prepared)
                }
            }
        }
    };
    let failed = rows.iter().filter(|row| !row.passed).count();
    match output {
        Output::Json => print::json(&rows)?,
        Output::Table => print::line(summary(&rows, failed, not_prepared.len(), cluster))?,
    }
    Ok(match (failed, not_prepared.len()) {
        (0, 0) => ExitCode::SUCCESS,
        // As a run that could not be carried out: nothing is known of these seeds.
        (0, _) => ExitCode::from(2),
        _ => ExitCode::FAILURE,
    })
}

/// The row as a line; below it, where it failed, what was wrong and how to run it again.
fn line(row: &Row, fuzz: &Fuzz, cluster: ClusterKind) -> String {
    let word = if row.passed { "passed" } else { "FAILED" };
    let mut lines = vec![format!("{word} {:6.2} s  seed {}", row.seconds, row.seed)];
    lines.extend(row.failures.iter().map(|failure| format!("  {failure}")));
    if let Some(path) = &row.file {
        let flags = match cluster {
            ClusterKind::Kind => " --cluster kind".to_owned(),
            ClusterKind::Embedded => {
                let adversarial = if row.adversarial { " --adversarial" } else { "" };
                let is_default = fuzz.kubernetes == Version::default();
                let version =
                    if is_default { String::new() } else { format!(" --kubernetes {}", fuzz.kubernetes) };
                format!(" --seed {}{adversarial}{version}", row.seed)
            }
        };
        let path = path.display();
        lines.push(format!("  kept as {path}; `neuron-e2e run {path}{flags}` runs it again"));
    }
    lines.join("\n")
}

fn summary(rows: &[Row], failed: usize, not_prepared: usize, cluster: ClusterKind) -> String {
    let compared = match cluster {
        ClusterKind::Embedded => String::new(),
        ClusterKind::Kind => {
            let compared = rows.iter().filter(|row| row.compared).count();
            format!("; {compared} compared with the embedded cluster")
        }
    };
    let not_prepared =
        if not_prepared == 0 { String::new() } else { format!(", {not_prepared} not prepared") };
    format!("{} passed, {failed} failed{not_prepared}{compared}", rows.len() - failed)
}

async fn on_embedded(fuzz: &Fuzz) -> anyhow::Result<Vec<Row>> {
    let progress = progress::bar(fuzz.count)?;
    let show = |event: Progress| match event {
        Progress::Shrinking { seed, failures } => progress.suspend(|| {
            print::progress(format_args!("seed {seed} fails and is made smaller: {}", failures.join("; ")));
        }),
        Progress::Done(row) => {
            progress.inc(1);
            progress.set_message(format!("seed {}", row.seed));
            if !row.passed || !stderr().is_terminal() {
                progress.suspend(|| print::progress(line(row, fuzz, ClusterKind::Embedded)));
            }
        }
    };
    let rows = fuzz::on_embedded(fuzz, show).await?;
    progress.finish_and_clear();
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use neuron_e2e_engine::scenario::CatalogSource;

    use super::*;

    #[test]
    fn a_failed_seed_says_what_was_wrong_and_how_to_run_it_again() {
        let row = Row {
            seed: 3,
            passed: false,
            compared: false,
            adversarial: true,
            failures: vec!["adversarial kubelets: action 2: pod p1 failed".to_owned()],
            file: Some("fuzz-failures/fuzz-3.yaml".into()),
            seconds: 1.5,
        };
        let expected = "FAILED   1.50 s  seed 3\n  adversarial kubelets: action 2: pod p1 failed\n  \
                        kept as fuzz-failures/fuzz-3.yaml; \
                        `neuron-e2e run fuzz-failures/fuzz-3.yaml --seed 3 --adversarial` runs it again";
        let fuzz = |kubernetes: Version| Fuzz {
            seed: 3,
            count: 1,
            jobs: 1,
            keep_failures: "fuzz-failures".into(),
            catalog: CatalogSource::default(),
            kubernetes,
        };
        assert_eq!(line(&row, &fuzz(Version::V1_37), ClusterKind::Embedded), expected);
        let older = line(&row, &fuzz(Version::V1_34), ClusterKind::Embedded);
        assert!(older.ends_with(" --seed 3 --adversarial --kubernetes 1.34` runs it again"), "{older}");
    }
}
