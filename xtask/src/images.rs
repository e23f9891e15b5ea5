//! `cargo xtask images`: static binaries, and one image a program by a Dockerfile that only copies the binary.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;

use crate::program;

/// Every program that has an image: its package, its binary, its Dockerfile under `deploy/images/` and its image
/// are called the same.
const PROGRAMS: [&str; 4] = ["neuron-extender", "neuron-device-plugin", "fake-neuron", "neuron-workload"];

#[derive(Args)]
pub(crate) struct Arguments {
    /// Tag of the images, as in neuron-extender:dev.
    #[arg(long, default_value = "dev")]
    tag: String,
    /// Image to build on; scratch is empty, so that nothing is pulled.
    #[arg(long, default_value = "scratch")]
    base: String,
}

/// Builds and packs everything.
///
/// # Errors
/// Docker does not answer, a build fails.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let workspace = &program::workspace_folder()?;
    // First: the build takes minutes, this takes none.
    check_docker()?;
    let began = Instant::now();
    let triple = linux_triple()?;
    println!("building {} for {triple}, static", PROGRAMS.join(", "));
    let binaries = build(workspace, &triple)?;
    println!("built in {:.1} s", began.elapsed().as_secs_f32());
    for name in PROGRAMS {
        let began = Instant::now();
        let image = format!("{name}:{}", arguments.tag);
        let before = id_of(&image);
        let bytes = pack(workspace, &binaries, name, &image, &arguments.base)?;
        remove_unnamed(before);
        println!(
            "packed {image} ({} MB) in {:.1} s",
            bytes.div_ceil(1_000_000),
            began.elapsed().as_secs_f32()
        );
    }
    println!(
        "all in {:.1} s; into a kind cluster: kind load docker-image IMAGE --name CLUSTER",
        began.elapsed().as_secs_f32()
    );
    Ok(())
}

fn check_docker() -> anyhow::Result<()> {
    program::output(Command::new("docker").args(["version", "--format", "{{.Server.Version}}"]))
        .context("Docker does not answer: install and start it; `docker version` must show a server")?;
    Ok(())
}

/// This machine's target, which cargo is given by name: flags for static linking reach build scripts and macros, which they
/// must not, unless a target is named.
fn linux_triple() -> anyhow::Result<String> {
    let triple = program::host_triple()?;
    if !triple.contains("linux") {
        bail!("images hold Linux programs, and this is {triple}: build them on a Linux machine");
    }
    Ok(triple)
}

/// The folder with the binaries.
fn build(workspace: &Path, triple: &str) -> anyhow::Result<PathBuf> {
    let folder = workspace.join("target/static");
    let mut cargo = program::cargo();
    cargo.current_dir(workspace).env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo
        .args(["build", "--locked", "--bins", "--profile", "image", "--target", triple, "--target-dir"])
        .arg(&folder);
    cargo.args(PROGRAMS.iter().flat_map(|name| ["--package", name]));
    program::run(&mut cargo)?;
    Ok(folder.join(triple).join("image"))
}

/// The id of the image of that name, if there is one.
fn id_of(image: &str) -> Option<String> {
    let id = program::output(Command::new("docker").args(["image", "inspect", "--format", "{{.Id}}", image]));
    Some(id.ok()?.trim().to_owned())
}

/// Removes an image whose only name another image has now. An image that a container still needs stays, which harms nothing.
fn remove_unnamed(id: Option<String>) {
    let Some(id) = id else { return };
    let names = ["image", "inspect", "--format", "{{len .RepoTags}}", &id];
    if program::output(Command::new("docker").args(names)).is_ok_and(|count| count.trim() == "0") {
        let _needed = program::output(Command::new("docker").args(["image", "rm", &id]));
    }
}

/// Packs one program; gives the binary's size in bytes.
fn pack(workspace: &Path, binaries: &Path, name: &str, image: &str, base: &str) -> anyhow::Result<u64> {
    // Docker is sent the whole folder, so it holds nothing but the binary.
    let context = workspace.join("target/static/context").join(name);
    fs::create_dir_all(&context).with_context(|| format!("cannot make {}", context.display()))?;
    let (from, to) = (binaries.join(name), context.join(name));
    let bytes = fs::copy(&from, &to)
        .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    let mut docker = Command::new("docker");
    // The classic builder everywhere: BuildKit would ask a registry about the base even where it is there.
    docker.env("DOCKER_BUILDKIT", "0").args([
        "build",
        "--quiet",
        "--build-arg",
        &format!("BASE={base}"),
        "--tag",
        image,
    ]);
    docker
        .arg("--file")
        .arg(workspace.join("deploy/images").join(format!("{name}.Dockerfile")))
        .arg(&context);
    program::output(&mut docker)?;
    Ok(bytes)
}
