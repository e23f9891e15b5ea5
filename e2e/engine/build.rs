//! Lists the scenario files, so that a new file is a new scenario with nothing else to change.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("../scenarios");
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut code = String::from(
        "/// Tier, name and text of every scenario file.\npub const SCENARIO_FILES: &[(Tier, &str, &str)] = &[\n",
    );
    for (tier, folder) in [("Placement", folder.clone()), ("Faults", folder.join("faults"))] {
        for file in scenarios_in(&folder)? {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            let path = file.display().to_string();
            writeln!(code, "    (Tier::{tier}, {name:?}, include_str!({path:?})),")
                .map_err(io::Error::other)?;
        }
    }
    code.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("scenario_files.rs"), code)
}

/// The scenario files of one folder, in the order of their names.
fn scenarios_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.retain(|path| path.extension().is_some_and(|ending| ending == "yaml"));
    files.sort();
    Ok(files)
}
