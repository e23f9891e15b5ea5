//! Containers of the suite's images: whether they can be run here, and what tests read of them.

use std::process::Command;
use std::time::Duration;

use testcontainers::core::{ContainerPort, IntoContainerPort};
use testcontainers::runners::AsyncRunner;
use testcontainers::{ContainerAsync, ContainerRequest, GenericImage, ImageExt};
use testkit_support::eventually;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Seconds until SIGKILL: below Kubernetes' own 30.
pub(crate) const GRACE: i32 = 10;

/// A well-formed kubeconfig of an API server that is not there. It names an authority, as every cluster's does: the images
/// have no certificates, and the client does not start without any.
const NOWHERE: &str = "
apiVersion: v1
kind: Config
current-context: nowhere
clusters: [{name: nowhere, cluster: {server: \"https://127.0.0.1:1\", certificate-authority: /ca.crt}}]
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
users: [{name: nobody, user: {}}]
";

/// Whether this image can be run here; prints why not.
pub(crate) fn can_run(image: &str) -> bool {
    let works = |arguments: &[&str]| {
        Command::new("docker").args(arguments).output().is_ok_and(|output| output.status.success())
    };
    let missing = if !works(&["version"]) {
        "no Docker".to_owned()
    } else if !works(&["image", "inspect", &format!("{image}:dev")]) {
        format!("no image {image}:dev; make it with `cargo xtask images`")
    } else {
        return true;
    };
    skip(&missing);
    false
}

/// Prints that a test is skipped and why.
///
/// # Panics
/// Panics if NEURON_REQUIRE_DOCKER is 1.
pub(crate) fn skip(why: &str) {
    let required = std::env::var("NEURON_REQUIRE_DOCKER").is_ok_and(|value| value == "1");
    assert!(!required, "{why}, and NEURON_REQUIRE_DOCKER=1 asks for it");
    println!("skipped: {why}");
}

/// A container of the image with these arguments.
pub(crate) fn container(image: &str, arguments: &[&str]) -> ContainerRequest<GenericImage> {
    GenericImage::new(image, "dev").with_cmd(arguments.iter().copied())
}

/// A container with a port, and with the kubeconfig of an API server that is not there as /kubeconfig.
pub(crate) fn service(image: &str, port: u16, arguments: &[&str]) -> ContainerRequest<GenericImage> {
    let authority = rcgen::generate_simple_self_signed(["nowhere".to_owned()]).unwrap().cert.pem();
    GenericImage::new(image, "dev")
        .with_exposed_port(port.tcp())
        .with_cmd(arguments.iter().copied())
        .with_copy_to("/ca.crt", authority.into_bytes())
        .with_copy_to("/kubeconfig", NOWHERE.as_bytes().to_vec())
}

pub(crate) async fn start(request: ContainerRequest<GenericImage>) -> ContainerAsync<GenericImage> {
    tokio::time::timeout(Duration::from_secs(30), request.start())
        .await
        .expect("Docker takes too long")
        .unwrap()
}

/// Status and body of GET /healthz, once the container answers.
pub(crate) async fn healthz(container: &ContainerAsync<GenericImage>, port: u16) -> (u16, String) {
    healthz_that_says(container, port, "").await
}

/// Status and body of GET /healthz, once the container answers with these words: its parts start one after the other.
pub(crate) async fn healthz_that_says(
    container: &ContainerAsync<GenericImage>,
    port: u16,
    words: &str,
) -> (u16, String) {
    let port = container.get_host_port_ipv4(ContainerPort::Tcp(port)).await.unwrap();
    eventually(&format!("an answer from /healthz that says {words:?}"), async || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
        stream.write_all(b"GET /healthz HTTP/1.0\r\nhost: x\r\n\r\n").await.ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).await.ok()?;
        let (head, body) = text.split_once("\r\n\r\n").filter(|(_, body)| body.contains(words))?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    })
    .await
}

/// The exit code, once the container has ended by itself.
pub(crate) async fn exit_code(container: &ContainerAsync<GenericImage>) -> i64 {
    eventually("the container to end", async || container.exit_code().await.unwrap()).await
}

/// The exit code after SIGTERM; 137 if it had to be killed after [`GRACE`].
pub(crate) async fn stop(container: &ContainerAsync<GenericImage>) -> i64 {
    container.stop_with_timeout(Some(GRACE)).await.unwrap();
    exit_code(container).await
}

/// The first line of the standard output, once it is whole.
pub(crate) async fn first_line(container: &ContainerAsync<GenericImage>) -> String {
    eventually("a line of output", async || {
        let printed = String::from_utf8(container.stdout_to_vec().await.unwrap()).unwrap();
        printed.split_once('\n').map(|(line, _)| line.to_owned())
    })
    .await
}
