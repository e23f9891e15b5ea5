//! Generates the Rust side of `proto/*.proto` without a system protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let files = ["proto/deviceplugin.proto", "proto/podresources.proto", "proto/pods.proto"];
    for file in files {
        println!("cargo:rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().btree_map(".").compile_fds(descriptors)?;
    Ok(())
}
