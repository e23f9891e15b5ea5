//! The metadata service: tokens, paths and refusals as EC2 answers them, and the program that serves it alone.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failing helper of a test should say where")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fake_neuron::imds::{Instance, listen};
use rstest::rstest;

const TOKEN: &str = "X-aws-ec2-metadata-token";
const LIFETIME: &str = "X-aws-ec2-metadata-token-ttl-seconds";

/// The running program, ended with the test.
struct Served {
    program: Child,
    address: SocketAddr,
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

fn serve(arguments: &[&str]) -> Served {
    let mut program = Command::new(env!("CARGO_BIN_EXE_fake-neuron"))
        .args(["imds", "--instance-type", "trn1.32xlarge", "--instance-id", "i-0123456789abcdef0"])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().strip_prefix("http://").unwrap_or_else(|| panic!("{line:?}")).parse().unwrap();
    Served { program, address }
}

impl Served {
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let mut stream = TcpStream::connect(self.address).unwrap();
        let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n",
            self.address
        )
        .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    fn token(&self, seconds: &str) -> String {
        let answer = self.ask("PUT", "/latest/api/token", &[(LIFETIME, seconds)]);
        assert_eq!(answer.status, 200);
        assert!(
            answer.head.contains(&format!("{}: {seconds}", LIFETIME.to_ascii_lowercase())),
            "{}",
            answer.head
        );
        assert!(answer.body.len() == 56 && answer.body.ends_with("=="), "{}", answer.body);
        answer.body
    }

    fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[(TOKEN, &self.token("60"))])
    }
}

#[test]
fn the_instance_describes_itself() {
    let served = serve(&["--availability-zone", "ap-southeast-2c"]);
    let zone = "ap-southeast-2c".parse().unwrap();
    let instance = Instance::of("trn1.32xlarge", "i-0123456789abcdef0").in_zone(&zone);
    let card = format!("network/interfaces/macs/{}", instance.mac);
    for (path, value) in [
        ("instance-type", "trn1.32xlarge"),
        ("instance-id", "i-0123456789abcdef0"),
        ("placement/availability-zone", "ap-southeast-2c"),
        ("placement/availability-zone-id", "apse2-az3"),
        ("placement/region", "ap-southeast-2"),
        ("ami-id", instance.ami_id.as_str()),
        ("mac", &instance.mac),
        ("local-ipv4", &instance.local_ipv4),
        ("hostname", &instance.hostname),
        (&format!("{card}/subnet-id"), &instance.subnet_id),
        ("network/interfaces/macs/", &format!("{}/", instance.mac)),
        ("placement/", "availability-zone\navailability-zone-id\nregion"),
        ("network/", "interfaces/"),
    ] {
        let answer = served.get(&format!("/latest/meta-data/{path}"));
        assert_eq!((answer.status, answer.body.as_str()), (200, value), "{path}");
        assert!(answer.head.contains("content-type: text/plain"), "{}", answer.head);
    }
    assert!(instance.hostname.ends_with(".ap-southeast-2.compute.internal"), "{}", instance.hostname);
    assert!(Instance::of("trn1.2xlarge", "i-1").hostname.ends_with(".ec2.internal"));
    assert_eq!(served.get("/latest/").body, "dynamic\nmeta-data");
    assert_eq!(served.get("/2021-01-03/meta-data/instance-type").body, "trn1.32xlarge");
    assert_eq!(served.get("/2021-01-04/").status, 404);
    let versions = served.get("/").body;
    assert_eq!(versions.len(), 274, "as the captured answer has bytes: {versions}");
    assert!(versions.starts_with("1.0\n2007-01-19\n") && versions.ends_with("\n2021-03-23\nlatest"));
    let names = served.get("/latest/meta-data/").body;
    assert!(
        names.starts_with("ami-id\n") && names.contains("\nplacement/\n") && !names.contains("tags"),
        "{names}"
    );

    let document: serde_json::Value =
        serde_json::from_str(&served.get("/latest/dynamic/instance-identity/document").body).unwrap();
    assert_eq!(document["instanceType"], "trn1.32xlarge");
    assert_eq!(document["region"], "ap-southeast-2");
    assert_eq!(document["privateIp"], instance.local_ipv4.as_str());
}

#[rstest]
#[case::tags_are_off("/latest/meta-data/tags/instance")]
#[case::no_such_value("/latest/meta-data/instance-types")]
#[case::below_a_value("/latest/meta-data/instance-type/x")]
#[case::no_user_data("/latest/user-data")]
#[case::no_such_version("/2000-01-01/meta-data/instance-id")]
fn what_is_not_there_is_not_found(#[case] path: &str) {
    let answer = serve(&[]).get(path);
    assert_eq!(answer.status, 404);
    assert!(answer.body.contains("<title>404 - Not Found</title>"), "{}", answer.body);
}

#[rstest]
#[case::no_lifetime("PUT", &[], 400)]
#[case::too_short("PUT", &[(LIFETIME, "0")], 400)]
#[case::shortest("PUT", &[(LIFETIME, "1")], 200)]
#[case::longest("PUT", &[(LIFETIME, "21600")], 200)]
#[case::too_long("PUT", &[(LIFETIME, "21601")], 400)]
#[case::no_number("PUT", &[(LIFETIME, "six")], 400)]
#[case::through_a_proxy("PUT", &[(LIFETIME, "60"), ("X-Forwarded-For", "10.0.0.1")], 403)]
#[case::not_put("GET", &[(LIFETIME, "60")], 405)]
fn a_token_is_given_for_a_lifetime(
    #[case] method: &str,
    #[case] headers: &[(&str, &str)],
    #[case] status: u16,
) {
    assert_eq!(serve(&[]).ask(method, "/latest/api/token", headers).status, status);
}

#[test]
fn without_a_token_only_v1_answers() {
    let path = "/latest/meta-data/instance-type";
    let required = serve(&[]);
    let refused = required.ask("GET", path, &[]);
    assert_eq!(refused.status, 401);
    assert!(refused.body.contains("<title>401 - Unauthorized</title>"), "{}", refused.body);
    assert_eq!(required.ask("GET", path, &[(TOKEN, "made up==")]).status, 401);
    assert_eq!(required.ask("POST", path, &[(TOKEN, &required.token("60"))]).status, 405);

    let optional = serve(&["--v1"]);
    assert_eq!(optional.ask("GET", path, &[]).body, "trn1.32xlarge");
    assert_eq!(optional.ask("GET", path, &[(TOKEN, &optional.token("60"))]).status, 200);
    assert_eq!(optional.ask("GET", path, &[(TOKEN, &required.token("60"))]).status, 401);
}

#[test]
fn a_token_ends() {
    let served = serve(&[]);
    let asked = Instant::now();
    let token = served.token("1");
    let status = || served.ask("GET", "/latest/meta-data/instance-id", &[(TOKEN, &token)]).status;
    assert_eq!(status(), 200);
    while status() == 200 {
        assert!(asked.elapsed() < Duration::from_secs(30), "the token never ends");
    }
    assert!(asked.elapsed() >= Duration::from_secs(1), "it ended after {:?}", asked.elapsed());
    assert_eq!(status(), 401);
}

#[test]
fn the_hop_limit_is_on_every_packet() {
    let listener = listen(SocketAddr::from(([127, 0, 0, 1], 0)), 2).unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (accepted, _) = listener.accept().unwrap();
    assert_eq!(rustix::net::sockopt::ip_ttl(&accepted).unwrap(), 2);
    drop(client);
}

#[test]
fn it_ends_with_sigterm() {
    let mut served = serve(&[]);
    let pid = rustix::process::Pid::from_child(&served.program);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(served.program.wait().unwrap().success());
}

#[rstest]
#[case::unknown_type(
    &["--instance-type", "trn1.31xlarge"],
    "instance type trn1.31xlarge is not known: did you mean one of trn1.32xlarge, trn1n.32xlarge, trn1.2xlarge? \
     `fake-neuron list --aliases` shows every name and takes types of your own with --catalog"
)]
#[case::no_zone(
    &["--instance-type", "trn1.2xlarge", "--availability-zone", "Ohio"],
    "availability zone \"Ohio\" is none: write a region and a letter, such as us-east-1a"
)]
#[case::foreign_address(
    &["--instance-type", "trn1.2xlarge", "--listen", "192.0.2.1:1"],
    "cannot listen on 192.0.2.1:1 (--listen): Cannot assign requested address (os error 99)"
)]
fn what_cannot_be_served_is_refused(#[case] arguments: &[&str], #[case] message: &str) {
    let refused =
        Command::new(env!("CARGO_BIN_EXE_fake-neuron")).arg("imds").args(arguments).output().unwrap();
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), format!("fake-neuron: {message}\n"));
    assert_eq!((refused.status.code(), refused.stdout.len()), (Some(1), 0));
}
