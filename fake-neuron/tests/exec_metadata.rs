//! `fake-neuron exec --imds`: the metadata service at its address, and what else tells where the instance is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

mod running;

use rstest::rstest;
use running::{exec, is_possible, printed};
use serde_json::Value;

/// Asks the service. bash opens connections itself: curl is not everywhere.
const ASK: &str = r#"
ask() {
    exec 3<>/dev/tcp/169.254.169.254/80
    printf '%s HTTP/1.1\r\nConnection: close\r\n%s\r\n\r\n' "$1" "$2" >&3
    tr -d '\r' <&3
}
"#;

#[test]
fn the_metadata_is_at_its_address_and_there_is_no_other_network() {
    if !is_possible() {
        return;
    }
    let script = r#"
        token=$(ask 'PUT /latest/api/token' 'X-aws-ec2-metadata-token-ttl-seconds: 60' | tail -n 1)
        echo $(ask 'GET /latest/meta-data/instance-id' "X-aws-ec2-metadata-token: $token" | tail -n 1)
        echo $(ask 'GET /latest/meta-data/placement/region' "X-aws-ec2-metadata-token: $token" | tail -n 1)
        ask 'GET /latest/meta-data/instance-id' 'Accept: */*' | head -n 1
        cat /sys/class/dmi/id/board_asset_tag
        tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '"#;
    let id = ["--instance-id", "i-0123456789abcdef0", "--availability-zone", "eu-north-1b"];
    for (version, without_token) in
        [(&["--imds"][..], "401 Unauthorized"), (&["--imds", "--imds-v1"], "200 OK")]
    {
        let output = exec("inf2.8xlarge", version)
            .args(id)
            .args(["--", "bash", "-c", &format!("{ASK}{script}")])
            .output()
            .unwrap();
        let id = "i-0123456789abcdef0";
        let expected = format!("{id}\neu-north-1\nHTTP/1.1 {without_token}\n{id}\nlo\n");
        assert_eq!(printed(&output), expected);
    }
}

#[test]
fn the_metadata_is_at_its_address_in_the_hosts_network() {
    if !is_possible() {
        return;
    }
    let mine = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = mine.local_addr().unwrap().port();
    let script = format!(
        r#"exec 3<>/dev/tcp/169.254.169.254/80
        printf 'GET /latest/meta-data/instance-type HTTP/1.1\r\nConnection: close\r\n\r\n' >&3; tr -d '\r' <&3 | tail -n 1; echo
        exec 4<>/dev/tcp/127.0.0.1/{port} && echo mine"#
    );
    let options = ["--imds", "--imds-v1", "--imds-keep-network", "--", "bash", "-c", &script];
    assert_eq!(printed(&exec("inf1.6xlarge", &options).output().unwrap()), "inf1.6xlarge\nmine\n");
    mine.accept().unwrap();
}

#[rstest]
#[case::asked_for(&["--availability-zone", "eu-north-1b"], "eu-north-1b")]
#[case::the_default(&[], "us-east-1a")]
fn the_monitor_says_where_the_metadata_says_the_instance_is(#[case] options: &[&str], #[case] zone: &str) {
    if !is_possible() {
        return;
    }
    let script = r#"
        for path in availability-zone availability-zone-id region; do
            echo $(ask "GET /latest/meta-data/placement/$path" 'Accept: */*' | tail -n 1)
        done
        echo '{"period": "50ms"}' | neuron-monitor -c /dev/stdin | head -1"#;
    let mut command = exec("trn1.2xlarge", &["--imds", "--imds-v1"]);
    let output =
        command.args(options).args(["--", "bash", "-c", &format!("{ASK}{script}")]).output().unwrap();
    let said = printed(&output);
    let lines: Vec<&str> = said.lines().collect();
    let (record, by_service) = lines.split_last().unwrap();
    let record: Value = serde_json::from_str(record).unwrap();
    let keys = ["availability_zone", "availability_zone_id", "region"];
    let by_monitor = keys.map(|key| record["instance_info"][format!("instance_{key}")].as_str().unwrap());
    assert_eq!(by_monitor, by_service);
    assert_eq!(by_monitor[0], zone);
}
