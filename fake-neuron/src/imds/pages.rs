//! What stands at which path: values, folders and the identity document. Pure. Read by [`super::service`].

use std::collections::BTreeMap;

use crate::imds::Instance;

/// The versions that answer, as a capture of 2022 in AWS' developer guide of Snowball Edge lists them. All mean the same here.
const VERSIONS: [&str; 26] = [
    "1.0",
    "2007-01-19",
    "2007-03-01",
    "2007-08-29",
    "2007-10-10",
    "2007-12-15",
    "2008-02-01",
    "2008-09-01",
    "2009-04-04",
    "2011-01-01",
    "2011-05-01",
    "2012-01-12",
    "2014-02-25",
    "2014-11-05",
    "2015-10-20",
    "2016-04-19",
    "2016-06-30",
    "2016-09-02",
    "2018-03-28",
    "2018-08-17",
    "2018-09-24",
    "2019-10-01",
    "2020-10-27",
    "2021-01-03",
    "2021-03-23",
    "latest",
];

/// The instance's values by path below a version, such as `meta-data/instance-id`.
#[derive(Debug)]
pub(super) struct Pages(BTreeMap<String, String>);

impl Pages {
    pub(super) fn of(instance: &Instance) -> Self {
        let Instance { mac, hostname, local_ipv4, region, .. } = instance;
        let card = format!("network/interfaces/macs/{mac}");
        let values = [
            ("ami-id", instance.ami_id.as_str()),
            ("ami-launch-index", "0"),
            ("ami-manifest-path", "(unknown)"),
            ("hostname", hostname),
            ("instance-action", "none"),
            ("instance-id", &instance.instance_id),
            ("instance-life-cycle", "on-demand"),
            ("instance-type", &instance.instance_type),
            ("local-hostname", hostname),
            ("local-ipv4", local_ipv4),
            ("mac", mac),
            (&format!("{card}/device-number"), "0"),
            (&format!("{card}/interface-id"), &instance.interface_id),
            (&format!("{card}/local-hostname"), hostname),
            (&format!("{card}/local-ipv4s"), local_ipv4),
            (&format!("{card}/mac"), mac),
            (&format!("{card}/owner-id"), &instance.owner_id),
            (&format!("{card}/security-group-ids"), &instance.security_group_id),
            (&format!("{card}/security-groups"), "default"),
            (&format!("{card}/subnet-id"), &instance.subnet_id),
            (&format!("{card}/subnet-ipv4-cidr-block"), "10.0.0.0/16"),
            (&format!("{card}/vpc-id"), &instance.vpc_id),
            (&format!("{card}/vpc-ipv4-cidr-block"), "10.0.0.0/16"),
            ("placement/availability-zone", &instance.availability_zone),
            ("placement/availability-zone-id", &instance.availability_zone_id),
            ("placement/region", region),
            ("profile", "default-hvm"),
            ("reservation-id", &instance.reservation_id),
            ("security-groups", "default"),
            ("services/domain", "amazonaws.com"),
            ("services/partition", "aws"),
        ];
        let mut pages: BTreeMap<String, String> =
            values.into_iter().map(|(path, value)| (format!("meta-data/{path}"), value.to_owned())).collect();
        pages.insert("dynamic/instance-identity/document".to_owned(), document(instance));
        Self(pages)
    }

    /// The body at `path`, which starts with a slash: a value, or the names in a folder as IMDS prints them (one a line, folders
    /// with a slash, no newline at the end). A folder answers with and without a slash at its end (unconfirmed).
    pub(super) fn at(&self, path: &str) -> Option<String> {
        let path = path.trim_matches('/');
        let (version, below) = path.split_once('/').unwrap_or((path, ""));
        if version.is_empty() {
            return Some(VERSIONS.join("\n"));
        }
        if !VERSIONS.contains(&version) {
            return None;
        }
        self.0.get(below).cloned().or_else(|| self.folder(below))
    }

    fn folder(&self, path: &str) -> Option<String> {
        let start = if path.is_empty() { String::new() } else { format!("{path}/") };
        let mut names: Vec<&str> = self
            .0
            .keys()
            .filter_map(|full| full.strip_prefix(&start))
            .map(|rest| rest.find('/').map_or(rest, |slash| &rest[..=slash]))
            .collect();
        names.dedup();
        // The two roots are printed without their slash.
        let trim = |name: &str| if path.is_empty() { name.trim_end_matches('/') } else { name }.to_owned();
        (!names.is_empty()).then(|| names.into_iter().map(trim).collect::<Vec<_>>().join("\n"))
    }
}

/// The identity document, spaced as EC2 writes it. The time of the launch is made up.
fn document(instance: &Instance) -> String {
    let text = |value: &str| serde_json::Value::from(value).to_string();
    let null = || "null".to_owned();
    let rows = [
        ("accountId", text(&instance.owner_id)),
        ("architecture", text("x86_64")),
        ("availabilityZone", text(&instance.availability_zone)),
        ("billingProducts", null()),
        ("devpayProductCodes", null()),
        ("imageId", text(&instance.ami_id)),
        ("instanceId", text(&instance.instance_id)),
        ("instanceType", text(&instance.instance_type)),
        ("kernelId", null()),
        ("marketplaceProductCodes", null()),
        ("pendingTime", text("2026-01-01T00:00:00Z")),
        ("privateIp", text(&instance.local_ipv4)),
        ("ramdiskId", null()),
        ("region", text(&instance.region)),
        ("version", text("2017-09-30")),
    ];
    let rows: Vec<String> = rows.into_iter().map(|(key, value)| format!("  \"{key}\" : {value}")).collect();
    format!("{{\n{}\n}}", rows.join(",\n"))
}
