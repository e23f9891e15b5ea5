//! `cargo xtask commits BASE`: whether the commits since `BASE` have subjects `component: what changed`. A component is a
//! folder of the tree; merges are exempt.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::bail;
use clap::Args;

use crate::program;

/// Longest subject, in characters.
const LONGEST: usize = 72;

#[derive(Args)]
pub(crate) struct Arguments {
    /// The last commit that is not checked.
    base: String,
}

/// Checks every commit that `HEAD` has and `BASE` has not. A clone that lacks the history is skipped, with the reason.
///
/// # Errors
/// Subjects against the rule.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let checked = check(&program::workspace_folder()?, &arguments.base)?;
    program::print(&told(&checked, &arguments.base)?)
}

fn told(checked: &Checked, base: &str) -> anyhow::Result<String> {
    match checked {
        Checked::Skipped(reason) => Ok(format!("skipped: {reason}")),
        Checked::Commits(count, problems) if problems.is_empty() => {
            Ok(format!("{count} commits since {base}, all well named"))
        }
        Checked::Commits(count, problems) => bail!(
            "{} of {count} subjects are not `component: what changed` (CONTRIBUTING.md):\n- {}\nreword them: git rebase -i \
             {base}",
            problems.len(),
            problems.join("\n- ")
        ),
    }
}

/// What came of a check.
#[derive(Debug, PartialEq, Eq)]
enum Checked {
    /// The history is not there, and why.
    Skipped(String),
    /// The number of commits, and what is wrong with which.
    Commits(usize, Vec<String>),
}

fn check(folder: &Path, base: &str) -> anyhow::Result<Checked> {
    let git = |arguments: &[&str]| program::output(Command::new("git").current_dir(folder).args(arguments));
    if git(&["rev-parse", "--git-dir"]).is_err() {
        return Ok(Checked::Skipped(format!("{} is no git repository", folder.display())));
    }
    let shallow = if git(&["rev-parse", "--is-shallow-repository"])?.trim() == "true" {
        "; this clone is shallow: git fetch --unshallow"
    } else {
        ""
    };
    if git(&["cat-file", "-e", &format!("{base}^{{commit}}")]).is_err() {
        return Ok(Checked::Skipped(format!("commit {base} is not in this clone{shallow}")));
    }
    if git(&["merge-base", "--is-ancestor", base, "HEAD"]).is_err() {
        return Ok(Checked::Skipped(format!("commit {base} does not lead to HEAD here{shallow}")));
    }
    let log = git(&["log", "--no-merges", "--format=%H %P", &format!("{base}..HEAD")])?;
    let mut problems = Vec::new();
    for line in log.lines() {
        let subject =
            git(&["show", "--no-patch", "--format=%s", line.split(' ').next().unwrap_or_default()])?;
        let mut components = BTreeSet::new();
        // A commit may be about what it removes.
        for tree in line.split(' ') {
            components.extend(components_of(&git(&["ls-tree", "-r", "--name-only", tree])?));
        }
        if let Err(problem) = check_subject(subject.trim_end(), &components) {
            let short: String = line.chars().take(7).collect();
            problems.push(format!("{short} {:?}: {problem}", subject.trim_end()));
        }
    }
    Ok(Checked::Commits(log.lines().count(), problems))
}

/// The names of all folders, hidden ones without their dot, and of the files at the top, without what follows their dot.
fn components_of(files: &str) -> BTreeSet<String> {
    let mut components = BTreeSet::new();
    for file in files.lines() {
        let mut folders: Vec<&str> = file.split('/').collect();
        if let (Some(name), true) = (folders.pop(), folders.is_empty()) {
            let name = name.trim_start_matches('.');
            components.insert(name.split('.').next().unwrap_or(name).to_lowercase());
        }
        for (depth, folder) in folders.iter().enumerate() {
            components.insert(folder.trim_start_matches('.').to_lowercase());
            components.insert(folders[..=depth].join("/").trim_start_matches('.').to_lowercase());
        }
    }
    components
}

fn check_subject(subject: &str, components: &BTreeSet<String>) -> Result<(), String> {
    let length = subject.chars().count();
    if length > LONGEST {
        return Err(format!("{length} characters; {LONGEST} are allowed"));
    }
    let Some((component, change)) = subject.split_once(": ") else {
        return Err("no component; write `component: what changed`".to_owned());
    };
    if component.chars().any(char::is_uppercase) {
        return Err(format!("component {component:?} is not in lower case"));
    }
    if !components.contains(component) {
        return Err(format!("{component:?} is no folder of the tree"));
    }
    if change.trim().is_empty() {
        return Err("it does not tell what changed".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    const FILES: &str = "README.md\n.ci/run\ncore/src/lib.rs\ntestkit/fake-cluster/src/api/mod.rs\n";

    #[rstest]
    #[case("core: a catalog of its own", "")]
    #[case("fake-cluster: nested crates count", "")]
    #[case("testkit/fake-cluster: so do paths", "")]
    #[case("ci: a hidden folder", "")]
    #[case("readme: a file at the top", "")]
    #[case("Core: upper case", "component \"Core\" is not in lower case")]
    #[case("house: no such folder", "\"house\" is no folder of the tree")]
    #[case("lib: a file is no component", "\"lib\" is no folder of the tree")]
    #[case("Mend what readers found", "no component; write `component: what changed`")]
    #[case("core:without a space", "no component; write `component: what changed`")]
    #[case("core:  ", "it does not tell what changed")]
    #[case(
        "core: 73 characters xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "73 characters; 72 are allowed"
    )]
    #[case("core: 72 characters xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "")]
    fn subjects(#[case] subject: &str, #[case] problem: &str) {
        let found = check_subject(subject, &components_of(FILES)).err().unwrap_or_default();
        assert_eq!(found, problem);
    }

    /// A repository in which each subject is a commit that changes `core/`.
    struct Repository(tempfile::TempDir);

    impl Repository {
        fn new() -> Self {
            let repository = Repository(tempfile::tempdir().unwrap());
            repository.git(&["init", "--quiet", "--initial-branch=main"]);
            repository
        }

        fn git(&self, arguments: &[&str]) -> String {
            let identity = ["-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false"];
            let mut git = Command::new("git");
            program::output(git.current_dir(self.0.path()).args(identity).args(arguments)).unwrap()
        }

        fn commit(&self, file: &str, subject: &str) -> String {
            let path = self.0.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, subject).unwrap();
            self.git(&["add", "--all"]);
            self.git(&["commit", "--quiet", "--message", subject]);
            self.git(&["rev-parse", "HEAD"]).trim().to_owned()
        }
    }

    #[test]
    fn commits_after_the_base_are_checked_and_merges_are_not() {
        let repository = Repository::new();
        repository.commit("core/a", "Before the rule");
        let base = repository.commit("core/a", "The last before the rule");
        repository.git(&["checkout", "--quiet", "-b", "side"]);
        repository.commit("core/b", "core: on a branch");
        repository.git(&["checkout", "--quiet", "main"]);
        repository.commit("xtask/a", "xtask: on the main branch");
        repository.git(&[
            "merge",
            "--quiet",
            "--no-ff",
            "--message",
            "Merge side, whatever it is called",
            "side",
        ]);
        assert_eq!(check(repository.0.path(), &base).unwrap(), Checked::Commits(2, vec![]));

        repository.git(&["rm", "--quiet", "-r", "xtask"]);
        repository.commit("core/a", "xtask: gone");
        let wrong = repository.commit("core/a", "xtask: is no folder any more");
        let Checked::Commits(4, problems) = check(repository.0.path(), &base).unwrap() else { panic!() };
        assert_eq!(
            problems,
            [format!("{} \"xtask: is no folder any more\": \"xtask\" is no folder of the tree", &wrong[..7])]
        );
    }

    #[test]
    fn only_a_problem_fails() {
        assert_eq!(told(&Checked::Skipped("no git".to_owned()), "abc").unwrap(), "skipped: no git");
        assert_eq!(told(&Checked::Commits(2, vec![]), "abc").unwrap(), "2 commits since abc, all well named");
        let wrong = told(&Checked::Commits(2, vec!["1234567 \"x\": no component".to_owned()]), "abc");
        assert_eq!(
            wrong.unwrap_err().to_string(),
            "1 of 2 subjects are not `component: what changed` (CONTRIBUTING.md):\n- 1234567 \"x\": no component\nreword \
             them: git rebase -i abc"
        );
    }

    #[test]
    fn a_clone_without_the_history_is_skipped_and_told_why() {
        let repository = Repository::new();
        let base = repository.commit("core/a", "The last before the rule");
        repository.commit("core/a", "core: one more");
        let clone = tempfile::tempdir().unwrap();
        let from = format!("file://{}", repository.0.path().display());
        let to = clone.path().join("clone");
        repository.git(&["clone", "--quiet", "--depth=1", &from, to.to_str().unwrap()]);
        assert_eq!(
            check(&to, &base).unwrap(),
            Checked::Skipped(format!(
                "commit {base} is not in this clone; this clone is shallow: git fetch --unshallow"
            ))
        );
        repository.git(&["checkout", "--quiet", "--orphan", "other"]);
        repository.commit("core/a", "core: another beginning");
        assert_eq!(
            check(repository.0.path(), &base).unwrap(),
            Checked::Skipped(format!("commit {base} does not lead to HEAD here"))
        );
        let Checked::Skipped(reason) = check(clone.path(), &base).unwrap() else { panic!() };
        assert!(reason.ends_with("is no git repository"), "{reason}");
    }
}
