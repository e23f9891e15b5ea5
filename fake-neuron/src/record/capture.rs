//! Reads a host's Neuron files, bounded in number, size and time. Called by `fake-neuron record`.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::fixture::{Captured, What};
use super::identity::{MadeUp, is_identity};
use super::reader::Reader;
use super::{Fixture, RecordError, Skipped};
use crate::machine::tree::{CLASS, DEVICES, DRIVER_MAJOR, MODULE};

/// What a capture takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How long one file may take to answer.
    pub time: Duration,
    /// Bytes of one file. The kernel gives one page of an attribute.
    pub bytes: u64,
    /// Files, links and nodes. A trn2.48xlarge has 14,500.
    pub files: usize,
    /// Files of one folder tree (one device, the class, the module) that do not answer before the rest of it is left out.
    pub hung: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { time: Duration::from_secs(1), bytes: 64 * 1024, files: 100_000, hung: 3 }
    }
}

/// The module's files that are taken: not its addresses in memory.
const MODULE_FILES: [&str; 8] =
    ["coresize", "initsize", "initstate", "refcnt", "srcversion", "taint", "uevent", "version"];

/// Folders deeper than any known driver's are not entered.
const DEPTH: usize = 12;

/// Captures the host whose `/` is `root`. With `keep_identity` serial numbers and the instance id are the host's own.
///
/// # Errors
/// No Neuron device there, no type, or far too many files. What cannot be read is in [`Fixture::skipped`] instead.
pub fn capture(root: &Path, keep_identity: bool, limits: &Limits) -> Result<Fixture, RecordError> {
    let no_devices = || RecordError::NoDevices { root: root.to_owned() };
    let devices = children(&root.join(DEVICES)).map_err(|_| no_devices())?;
    if !devices.iter().any(|name| is_device(name)) {
        return Err(no_devices());
    }
    let dmi = |name: &str| fs::read_to_string(root.join("sys/class/dmi/id").join(name));
    let instance_type = dmi("product_name")
        .map_err(|reason| RecordError::NoType { root: root.to_owned(), reason })?
        .trim_end()
        .to_owned();
    let mut capture = Capture {
        root: root.to_owned(),
        limits: *limits,
        keep_identity,
        made_up: MadeUp::default(),
        entries: Vec::new(),
        skipped: Vec::new(),
        hung: 0,
        reader: Reader::new(limits),
    };
    capture.dmi(&instance_type, keep_identity.then(|| dmi("board_asset_tag").ok()).flatten());
    for name in devices.iter().filter(|name| is_device(name)) {
        capture.tree(&format!("{DEVICES}/{name}"))?;
    }
    capture.tree(CLASS)?;
    capture.module()?;
    capture.nodes();
    capture.setting()?;
    capture.proc();
    let driver_version = capture.content(&format!("{MODULE}/version"));
    capture.entries.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(Fixture {
        version: 1,
        instance_type,
        driver_version: driver_version.trim_end().to_owned(),
        identity_kept: keep_identity,
        skipped: capture.skipped,
        entries: capture.entries,
    })
}

struct Capture {
    root: PathBuf,
    limits: Limits,
    keep_identity: bool,
    made_up: MadeUp,
    entries: Vec<Captured>,
    skipped: Vec<Skipped>,
    /// Files of the present tree that did not answer.
    hung: usize,
    reader: Reader,
}

impl Capture {
    /// DMI as a Nitro instance shows it; only the type is the host's own, and its id if it is to be kept.
    fn dmi(&mut self, instance_type: &str, instance_id: Option<String>) {
        let made_up = || format!("{}\n", crate::machine::description::default_instance_id(instance_type));
        let texts = [
            ("board_asset_tag", instance_id.unwrap_or_else(made_up)),
            ("product_name", format!("{instance_type}\n")),
            ("sys_vendor", "Amazon EC2\n".to_owned()),
        ];
        for (name, content) in texts {
            self.file(&format!("sys/devices/virtual/dmi/id/{name}"), 0o444, content);
        }
        let link = "../../devices/virtual/dmi/id".to_owned();
        self.entries.push(Captured { path: "sys/class/dmi/id".to_owned(), what: What::Link { link } });
    }

    fn module(&mut self) -> Result<(), RecordError> {
        self.hung = 0;
        for name in MODULE_FILES {
            self.path(&format!("{MODULE}/{name}"), DEPTH)?;
        }
        self.path(&format!("{MODULE}/parameters"), DEPTH - 1)
    }

    fn nodes(&mut self) {
        for name in children(&self.root.join("dev")).unwrap_or_default() {
            let minor = name.strip_prefix("neuron").filter(|_| is_device(&name));
            if let Some(node) = minor.and_then(|digits| digits.parse().ok()) {
                self.entries.push(Captured { path: format!("dev/{name}"), what: What::Node { node } });
            }
        }
    }

    fn setting(&mut self) -> Result<(), RecordError> {
        self.hung = 0;
        self.path("opt/aws/neuron/logical_nc_config", DEPTH)
    }

    /// Only the driver's own lines, without its address in memory.
    fn proc(&mut self) {
        let about_neuron = |path: &str| {
            let text = fs::read_to_string(self.root.join(path)).unwrap_or_default();
            text.lines().find(|line| line.split_whitespace().any(|word| word == "neuron")).map(str::to_owned)
        };
        let (devices, module) = (about_neuron("proc/devices"), about_neuron("proc/modules"));
        if devices.is_some() {
            let text = format!("Character devices:\n{DRIVER_MAJOR} neuron\n\nBlock devices:\n");
            self.file("proc/devices", 0o444, text);
        }
        if let Some(line) = module.filter(|line| line.starts_with("neuron ")) {
            let words =
                line.split(' ').map(|word| if word.starts_with("0x") { "0x0000000000000000" } else { word });
            let line = words.collect::<Vec<_>>().join(" ");
            self.file("proc/modules", 0o444, format!("{line}\n"));
        }
    }

    fn tree(&mut self, below: &str) -> Result<(), RecordError> {
        self.hung = 0;
        self.path(below, 0)
    }

    /// Takes what is at the path, and all that is below it.
    fn path(&mut self, below: &str, depth: usize) -> Result<(), RecordError> {
        let path = self.root.join(below);
        let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
        if self.entries.len() >= self.limits.files {
            return Err(RecordError::TooMany { root: self.root.clone(), limit: self.limits.files });
        }
        if metadata.is_dir() {
            if depth < DEPTH {
                match children(&path) {
                    Ok(names) => {
                        names.iter().try_for_each(|name| self.path(&format!("{below}/{name}"), depth + 1))?;
                    }
                    Err(refused) => self.skip(below, &refused.to_string()),
                }
            }
        } else if metadata.is_symlink() {
            match fs::read_link(&path).ok().and_then(|link| link.to_str().map(str::to_owned)) {
                Some(link) if !link.starts_with('/') => {
                    self.entries.push(Captured { path: below.to_owned(), what: What::Link { link } });
                }
                _ => self.skip(below, "a link that does not stay below the root"),
            }
        } else {
            self.read(below, metadata.permissions().mode() & 0o777);
        }
        Ok(())
    }

    fn read(&mut self, below: &str, mode: u32) {
        if self.hung >= self.limits.hung {
            return self.skip(below, &format!("{} files beside it gave no answer", self.hung));
        }
        // A file that nobody may read has no text.
        let text =
            if mode & 0o444 == 0 { Ok(String::new()) } else { self.reader.read(self.root.join(below)) };
        match text {
            Ok(text) => {
                let text = self.own_numbers(below, text);
                self.file(below, mode, text);
            }
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                self.hung += 1;
                self.skip(below, &error.to_string());
            }
            Err(error) => self.skip(below, &error.to_string()),
        }
    }

    /// The fake's major number in place of the host's, and made-up numbers for those that tell which machine it is.
    fn own_numbers(&mut self, below: &str, text: String) -> String {
        let name = below.rsplit('/').next().unwrap_or_default();
        match name {
            "dev" => match text.split_once(':') {
                Some((_, minor)) => format!("{DRIVER_MAJOR}:{minor}"),
                None => text,
            },
            "uevent" => {
                let lines = text.lines().map(|line| match line.strip_prefix("MAJOR=") {
                    Some(_) => format!("MAJOR={DRIVER_MAJOR}\n"),
                    None => format!("{line}\n"),
                });
                lines.collect()
            }
            name if is_identity(name) && !self.keep_identity => self.made_up.text(&text),
            _ => text,
        }
    }

    fn file(&mut self, path: &str, mode: u32, content: String) {
        let what = What::File { mode: format!("{mode:04o}"), content };
        self.entries.push(Captured { path: path.to_owned(), what });
    }

    fn skip(&mut self, path: &str, why: &str) {
        self.skipped.push(Skipped { path: path.to_owned(), why: why.to_owned() });
    }

    fn content(&self, path: &str) -> String {
        let found = self.entries.iter().find(|entry| entry.path == path);
        match found.map(|entry| &entry.what) {
            Some(What::File { content, .. }) => content.clone(),
            _ => String::new(),
        }
    }
}

/// Whether the name is a device's: `neuron` and its id.
fn is_device(name: &str) -> bool {
    let id = name.strip_prefix("neuron");
    id.is_some_and(|id| !id.is_empty() && id.bytes().all(|digit| digit.is_ascii_digit()))
}

/// Names in a folder, sorted; those that are no text are left out.
fn children(folder: &Path) -> io::Result<Vec<String>> {
    let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().into_string().ok()));
    let mut names: Vec<String> = names.filter_map(io::Result::transpose).collect::<io::Result<_>>()?;
    names.sort();
    Ok(names)
}
