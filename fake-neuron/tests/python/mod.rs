//! A Python of the tests' own, with the pinned packages of `public/requirements.txt`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

/// The folder of Python's programs with everything that `public/requirements.txt` names, or why it cannot be had. Kept below the build's
/// folder.
pub(crate) static PYTHON: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("public-programs");
    fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    // Other processes of the same test wait for the first.
    let lock = File::create(folder.join("lock")).map_err(|error| error.to_string())?;
    lock.lock().map_err(|error| error.to_string())?;
    install(&folder.join("python"))
});

fn install(python: &Path) -> Result<PathBuf, String> {
    let requirements = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/public/requirements.txt");
    let wanted = fs::read_to_string(&requirements).map_err(|error| error.to_string())?;
    let (programs, installed) = (python.join("bin"), python.join("installed.txt"));
    if fs::read_to_string(&installed).is_ok_and(|there| there == wanted) {
        return Ok(programs);
    }
    let _ = fs::remove_dir_all(python);
    run(Command::new("python3").args(["-m", "venv"]).arg(python))?;
    let pip = [
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--disable-pip-version-check",
        "--retries=1",
        "--timeout=20",
    ];
    run(Command::new(programs.join("python")).args(pip).arg("-r").arg(&requirements))?;
    fs::write(installed, wanted).map_err(|error| error.to_string())?;
    Ok(programs)
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let last =
        said.lines().rfind(|line| line.to_lowercase().contains("error")).unwrap_or_else(|| said.trim());
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {last}")) }
}
