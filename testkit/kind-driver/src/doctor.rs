//! What clusters on kind need of this machine, and what to do where something is missing.

use std::fmt;

use serde::{Serialize, Serializer};

use testkit_support::Release;

use crate::{images, node_image, program};

/// Oldest kind, as major and minor version: the one whose release notes list the node images.
const NEEDED_KIND: (u64, u64) = (0, 33);
/// Instances of inotify that a user may have: every containerd, kubelet and pod that follows files has some, and a
/// containerd that gets none starts without its CRI. kind's own advice for several nodes.
const NEEDED_INOTIFY: u64 = 512;

/// What a run needs of the machine.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// The node image; [`node_image::DEFAULT`] if not given.
    pub node_image: Option<&'a str>,
    /// What the user sets to name another node image, such as a variable.
    pub node_image_setting: &'a str,
    /// How many clusters it makes beside those that stand.
    pub clusters: usize,
    /// Memory that these use together, in MiB.
    pub memory: u64,
    /// What a user can do beside ending other programs where memory is short, such as `give fewer --clusters`.
    pub memory_remedy: Option<&'a str>,
}

/// One thing looked at.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub what: &'static str,
    /// What is there, or why it does not serve and what to do about it.
    #[serde(flatten, serialize_with = "found_or_missing")]
    pub found: Result<String, String>,
}

/// Writes either `found` or `missing`, a text each.
fn found_or_missing<S: Serializer>(found: &Result<String, String>, serializer: S) -> Result<S::Ok, S::Error> {
    let (key, text) = match found {
        Ok(found) => ("found", found),
        Err(why) => ("missing", why),
    };
    serializer.collect_map([(key, text)])
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.found {
            Ok(found) => write!(f, "ok       {}: {found}", self.what),
            Err(why) => write!(f, "MISSING  {}: {why}", self.what),
        }
    }
}

/// Looks at everything, in the order in which it is needed. Pulls the node image where Docker lacks it.
pub async fn look(needs: Needs<'_>) -> Vec<Finding> {
    let docker = program::output("docker", &["version", "--format", "{{.Server.Version}}"]).await;
    let has_docker = docker.is_ok();
    let mut findings = vec![
        finding("docker", docker, "install and start Docker; `docker version` must show a server"),
        kind(program::output("kind", &["version"]).await),
        kubectl().await,
    ];
    if has_docker {
        let image = needs.node_image.unwrap_or(node_image::DEFAULT);
        let finding = node_image_is_there(image, needs.node_image_setting).await;
        let is_there = finding.found.is_ok();
        findings.push(finding);
        if is_there {
            findings.push(kubernetes(image, node_image::release(image).await));
        }
    }
    findings.push(memory(needs, &std::fs::read_to_string("/proc/meminfo").unwrap_or_default()));
    findings
        .push(inotify(std::fs::read_to_string("/proc/sys/fs/inotify/max_user_instances").ok().as_deref()));
    findings
}

/// Everything that is missing, each with what to do about it on a line of its own; none where nothing is.
pub fn missing(findings: &[Finding]) -> Option<String> {
    let line = |finding: &Finding| Some(format!("{}: {}", finding.what, finding.found.as_ref().err()?));
    let lines: Vec<String> = findings.iter().filter_map(line).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

async fn node_image_is_there(image: &str, setting: &str) -> Finding {
    if images::is_there(image).await {
        return Finding { what: "node image", found: Ok(image.to_owned()) };
    }
    let pulled = program::output("docker", &["pull", "--quiet", image]).await;
    let found = pulled.map(|_| image.to_owned()).map_err(|error| {
        format!("{image} is not here and cannot be pulled ({error:#}); name one that is in {setting}")
    });
    Finding { what: "node image", found }
}

/// The finding about the Kubernetes that clusters of this image are of. Another than those that are tested serves too.
fn kubernetes(image: &str, release: Option<Release>) -> Finding {
    let found = match release {
        Some(release) if node_image::is_tested(release) => release.to_string(),
        Some(release) => format!("{release}; tested are {}", node_image::tested_versions()),
        None => format!("unknown: neither the tag of {image} nor a file in it says"),
    };
    Finding { what: "Kubernetes", found: Ok(found) }
}

/// The finding about kind, from what `kind version` says, such as `kind v0.33.0 go1.26.8 linux/amd64`.
fn kind(said: anyhow::Result<String>) -> Finding {
    let remedy =
        format!("install kind {}.{} or later (https://kind.sigs.k8s.io)", NEEDED_KIND.0, NEEDED_KIND.1);
    let mut finding = finding("kind", said, &remedy);
    if let Ok(said) = &finding.found
        && kind_version(said).is_some_and(|version| version < NEEDED_KIND)
    {
        finding.found = Err(format!("{said} is too old; {remedy}"));
    }
    finding
}

/// Major and minor version; none for a kind that somebody built and called otherwise.
fn kind_version(said: &str) -> Option<(u64, u64)> {
    let mut numbers = said.strip_prefix("kind v")?.split('.').map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

/// Looks at kubectl.
async fn kubectl() -> Finding {
    let remedy = "install kubectl, of the cluster's minor version or one beside it";
    finding("kubectl", program::output("kubectl", &["version", "--client"]).await, remedy)
}

/// Looks at kwok, for whoever keeps nodes without machines alive with it.
pub async fn kwok() -> Finding {
    let remedy = "install kwok 0.6 or later (https://kwok.sigs.k8s.io)";
    finding("kwok", program::output("kwok", &["--version"]).await, remedy)
}

fn finding(what: &'static str, found: anyhow::Result<String>, remedy: &str) -> Finding {
    let first_line = |text: String| text.lines().next().unwrap_or_default().to_owned();
    Finding { what, found: found.map(first_line).map_err(|error| format!("{error:#}; {remedy}")) }
}

/// The finding about memory, from `/proc/meminfo` where the kernel is Linux.
fn memory(needs: Needs<'_>, meminfo: &str) -> Finding {
    let Needs { clusters, memory: needed, memory_remedy, .. } = needs;
    let available = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    let found = match available.map(|kib| kib / 1024) {
        Some(mib) if mib < needed => {
            let s = if clusters == 1 { "" } else { "s" };
            let remedy = memory_remedy.map(|remedy| format!(", or {remedy}")).unwrap_or_default();
            Err(format!(
                "{mib} MiB are available, {needed} are needed for {clusters} cluster{s}; end other programs{remedy}"
            ))
        }
        Some(mib) => Ok(format!("{mib} MiB available")),
        // Not Linux: Docker has a machine of its own, whose memory it minds itself.
        None => Ok("unknown".to_owned()),
    };
    Finding { what: "memory", found }
}

/// The finding about inotify instances, from the kernel's limit where it is Linux.
fn inotify(limit: Option<&str>) -> Finding {
    let found = match limit.and_then(|text| text.trim().parse::<u64>().ok()) {
        Some(instances) if instances < NEEDED_INOTIFY => Err(format!(
            "a user may have {instances} instances, {NEEDED_INOTIFY} are needed; \
             `sudo sysctl fs.inotify.max_user_instances={NEEDED_INOTIFY}`"
        )),
        Some(instances) => Ok(format!("{instances} instances")),
        None => Ok("unknown".to_owned()),
    };
    Finding { what: "inotify", found }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_read_what_is_there_and_what_is_missing() {
        let there = Finding { what: "docker", found: Ok("28.2.2".into()) };
        let missing = Finding { what: "kwok", found: Err("install kwok".into()) };
        assert_eq!(serde_json::to_string(&there).unwrap(), r#"{"what":"docker","found":"28.2.2"}"#);
        assert_eq!(serde_json::to_string(&missing).unwrap(), r#"{"what":"kwok","missing":"install kwok"}"#);
        assert_eq!(missing.to_string(), "MISSING  kwok: install kwok");
    }

    #[test]
    fn too_few_instances_of_inotify_come_with_the_command_that_gives_more() {
        assert!(
            inotify(Some("128\n")).found.unwrap_err().contains("sysctl fs.inotify.max_user_instances=512")
        );
        assert_eq!(inotify(Some("1024\n")).found.unwrap(), "1024 instances");
        assert_eq!(inotify(None).found.unwrap(), "unknown");
    }

    #[test]
    fn a_kind_that_is_too_old_is_not_taken() {
        let too_old = kind(Ok("kind v0.29.0 go1.24.2 linux/amd64\n".to_owned())).found.unwrap_err();
        assert_eq!(
            too_old,
            "kind v0.29.0 go1.24.2 linux/amd64 is too old; install kind 0.33 or later (https://kind.sigs.k8s.io)"
        );
        for said in
            ["kind v0.33.0 go1.26.8 linux/amd64", "kind v1.2.0-alpha go1.30 linux/arm64", "kind of ours"]
        {
            assert_eq!(kind(Ok(said.to_owned())).found.unwrap(), said);
        }
    }

    #[test]
    fn the_kubernetes_of_the_node_image_is_told_and_whether_it_is_tested() {
        let told = |text: &str| kubernetes("mine:1", text.parse().ok()).found.unwrap();
        assert_eq!(told("v1.37.2"), "v1.37.2");
        assert_eq!(told("v1.36.4"), "v1.36.4; tested are 1.37 and 1.34");
        assert_eq!(told(""), "unknown: neither the tag of mine:1 nor a file in it says");
    }

    #[test]
    fn what_is_missing_comes_with_its_remedy() {
        let missing = finding("kind", Err(anyhow::anyhow!("cannot start `kind version`")), "install kind");
        assert_eq!(missing.found.unwrap_err(), "cannot start `kind version`; install kind");
    }

    #[test]
    fn too_little_memory_says_how_much_is_needed_and_what_would_help() {
        let text = "MemTotal:  8000000 kB\nMemAvailable:  4194304 kB\n";
        let needs = |clusters, memory, memory_remedy| Needs {
            node_image: None,
            node_image_setting: "NODE_IMAGE",
            clusters,
            memory,
            memory_remedy,
        };
        assert_eq!(memory(needs(0, 0, None), text).found.unwrap(), "4096 MiB available");
        assert_eq!(memory(needs(1, 4096, None), text).found.unwrap(), "4096 MiB available");
        assert_eq!(
            memory(needs(3, 6144, Some("give fewer --clusters")), text).found.unwrap_err(),
            "4096 MiB are available, 6144 are needed for 3 clusters; end other programs, or give fewer --clusters"
        );
        let one = memory(needs(1, 4097, None), text).found.unwrap_err();
        assert!(one.ends_with(" for 1 cluster; end other programs"), "{one}");
        assert_eq!(memory(needs(3, 6144, None), "").found.unwrap(), "unknown");
    }

    #[test]
    fn everything_that_is_missing_is_told_at_once() {
        let finding = |what, found: Result<&str, &str>| Finding {
            what,
            found: found.map(str::to_owned).map_err(str::to_owned),
        };
        let findings = [
            finding("docker", Ok("28.2.2")),
            finding("kind", Err("install kind")),
            finding("memory", Err("end other programs")),
        ];
        assert_eq!(missing(&findings).unwrap(), "kind: install kind\nmemory: end other programs");
        assert_eq!(missing(&findings[..1]), None);
    }
}
